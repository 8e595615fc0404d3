// Call the server's routes: with a key if it wants one, again if it is busy, and with an error that people can read.

import {find} from './dom.js';

const KEY = 'sen2pro-key';
const PATIENCE = 120_000; // milliseconds that a server may take to start
let asking = null; // the promise of a key, while the dialog is open

/** A call without an answer; its message is for the visitor. */
export class Problem extends Error {}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Post a body to a route, and return its answer. */
export async function post(path, body, signal) {
  const began = Date.now();
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const response = await send(path, {
      method: 'POST', signal, body: JSON.stringify(body),
      headers: {'Content-Type': 'application/json', ...(key && {Authorization: `Bearer ${key}`})},
    });
    if (response.ok) {
      say('');
      const answer = await response.json();
      find('#model').textContent = answer.model;
      return answer;
    }
    if (response.status === 401) {
      await askForKey(key);
    } else if ((response.status === 503 || response.status === 429) && Date.now() - began < PATIENCE) {
      say(response.status === 503 ? 'The server is loading its model. This takes a few seconds.' : 'The server is busy; your turn comes soon.');
      await pause(600);
    } else {
      throw new Problem(await reason(response));
    }
    signal?.throwIfAborted();
  }
}

async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    waitForServer();
    throw new Problem('The server did not answer. Your texts are still here.');
  }
}

async function reason(response) {
  try {
    const {error} = await response.json();
    return sentence(error.message ?? error);
  } catch {
    return `The server refused this (${response.status}). Your texts are still here.`;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? '' : '.');

/** Send the parts of a list one after the other; tell how much is done after each. */
export async function inParts(items, size, call, told) {
  const found = [];
  told?.(0, items.length);
  for (let start = 0; start < items.length; start += size) {
    found.push(...await call(items.slice(start, start + size), start));
    told?.(Math.min(start + size, items.length), items.length);
  }
  return found;
}

function say(text) {
  const banner = find('#banner');
  if (banner.textContent !== text) banner.textContent = text;
}

let isWaiting = false;

async function waitForServer() {
  if (isWaiting) return;
  isWaiting = true;
  say('The server does not answer. Your texts are still here. Start it again to continue.');
  for (let isBack = false; !isBack;) {
    await pause(1500);
    isBack = await fetch('health', {cache: 'no-store'}).then((answer) => answer.ok, () => false);
  }
  isWaiting = false;
  say('The server is back.');
  setTimeout(() => { if (!isWaiting) say(''); }, 5000);
}

function askForKey(refused) {
  asking ??= new Promise((done, fail) => {
    const dialog = find('#key-dialog'), field = find('#key');
    if (refused) find('#key-note').textContent = 'The server did not accept this key. Try another one.';
    field.value = '';
    dialog.addEventListener('close', () => {
      asking = null;
      if (!field.value) return fail(new Problem('This server needs a key. Try again to enter one.'));
      sessionStorage.setItem(KEY, field.value.trim());
      done();
    }, {once: true});
    dialog.addEventListener('cancel', () => { field.value = ''; }, {once: true});
    dialog.showModal();
  });
  return asking;
}
