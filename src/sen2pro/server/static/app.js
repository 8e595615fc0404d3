// The page: its tabs and its colours. Each tab has a module of its own.

import {find, watchTips} from './dom.js';
import {start as read} from './read.js';
import {start as compare} from './compare.js';
import {start as map} from './map.js';
import {start as search} from './search.js';
import {start as classify} from './classify.js';

const STARTS = {read, compare, map, search, classify};
const names = Object.keys(STARTS);
const answered = new Set();

/** Show a tab; the first time its example is answered. */
function open(name) {
  for (const each of names) {
    const tab = find(`#tab-${each}`);
    tab.setAttribute('aria-selected', each === name);
    tab.tabIndex = each === name ? 0 : -1;
    find(`#${each}-panel`).hidden = each !== name;
  }
  if (answered.has(name)) return;
  answered.add(name);
  STARTS[name]();
}

function openFromAddress() {
  const name = location.hash.slice(1);
  open(names.includes(name) ? name : 'read');
  scrollTo(0, 0);
}

names.forEach((name, i) => {
  const tab = find(`#tab-${name}`);
  const go = (to) => {
    history.replaceState(null, '', `#${to}`);
    open(to);
  };
  tab.addEventListener('click', () => go(name));
  tab.addEventListener('keydown', (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const next = names[(i + step + names.length) % names.length];
    go(next);
    find(`#tab-${next}`).focus();
  });
});

const root = document.documentElement;
root.style.colorScheme = localStorage.getItem('sen2pro-theme') ?? '';
find('#theme').addEventListener('click', () => {
  const isDark = root.style.colorScheme ? root.style.colorScheme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.style.colorScheme = isDark ? 'light' : 'dark';
  localStorage.setItem('sen2pro-theme', root.style.colorScheme);
});

watchTips();
addEventListener('hashchange', openFromAddress);
openFromAddress();
