// Build the page's elements. Every text becomes a text node or an attribute: nothing here parses HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** Return an HTML element: h('p', {class: 'note', onclick: f}, 'text', child, ...). */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Return an SVG element. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export const find = (selector, root = document) => root.querySelector(selector);

/** Return a share as a percentage; only a share of 0 is 0 %. */
export function percent(share) {
  if (share > 0 && share < 0.005) return '< 1 %';
  return share < 1 && share > 0.995 ? '> 99 %' : `${Math.round(100 * share)} %`;
}
export const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
export const rounded = (number) => (number == null ? '' : Number(number.toFixed(4)));

/** Return an error or a note for the place of the answer. */
export function message(text, kind = 'error') {
  return h('p', {class: `message ${kind}`, role: kind === 'error' ? 'alert' : 'status'}, text);
}

/** Return a bar for a share from 0 to 1; screen readers get the number beside it. */
export function bar(share, kind = '') {
  const inner = h('i');
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h('span', {class: `meter ${kind}`, 'aria-hidden': 'true'}, inner);
}

/** Set the colours of an element on the scale from vague (0) to specific (100). */
export function shade(element, score, strongest = score < 50 ? 58 : 32) {
  element.style.setProperty('--tone', score < 50 ? 'var(--vague)' : 'var(--specific)');
  element.style.setProperty('--amount', `${(4 + (strongest - 4) * (Math.abs(score - 50) / 50) ** 1.3).toFixed(1)}%`);
}

/** Return the legend of the scale, with `above` over it. */
export function legendScale(...above) {
  return h('div', {class: 'scale', role: 'img', 'aria-label': 'Legend: orange is vague, blue is specific'}, ...above,
    h('div', {class: 'gradient'}), h('div', {class: 'ends'}, ...['vague', '50', 'specific'].map((end) => h('span', {}, end))));
}

/** Return a score as a pill in its colour. */
export function pill(score) {
  const element = h('b', {class: 'pill'}, score == null ? '–' : String(Math.round(score)));
  if (score != null) shade(element, score);
  return element;
}

/** Return the words of a sentence, each shaded by its share of the meaning. */
export function shadedWords({words, moves, share}) {
  const strongest = Math.max(...share, 1e-9);
  const line = h('p', {class: 'words', dir: 'auto'});
  words.forEach((word, i) => {
    const shown = h('span', {}, word);
    shown.style.setProperty('--amount', `${(4 + 46 * share[i] / strongest).toFixed(1)}%`);
    const tip = `Without “${word}” the meaning moves by ${moves[i].toFixed(2)} (1 − cosine): ${percent(share[i])} of all moves`;
    line.append(h('span', {class: 'word', 'data-tip': tip}, shown, h('small', {}, percent(share[i]))), ' ');
  });
  return line;
}

function save(name, blob) {
  const link = h('a', {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Return a button that downloads what `make` returns: a Blob, or a promise of one. */
export function download(label, name, make) {
  return h('button', {type: 'button', class: 'quiet', onclick: async () => save(name, await make())}, label);
}

/** Return rows as CSV. A text that a spreadsheet would calculate gets a quote before it. */
export function csv(rows) {
  const cell = (value) => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? '');
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return new Blob([rows.map((row) => row.map(cell).join(',') + '\n').join('')], {type: 'text/csv;charset=utf-8'});
}

/** Return a button that downloads a table. */
export const downloadTable = (name, header, rows) => download('Download CSV', name, () => csv([header, ...rows]));

/** Show the text of `data-tip` beside what is pointed at or focused. */
export function watchTips() {
  const tip = find('#tip');
  const hide = () => { tip.hidden = true; };
  const show = (event) => {
    const target = event.target.closest?.('[data-tip]');
    if (!target || (target.matches('.sentence') && matchMedia('(hover: none)').matches)) return hide();
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    const box = target.getClientRects()[0];
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
  };
  document.addEventListener('pointerover', show);
  document.addEventListener('focusin', show);
  document.addEventListener('focusout', hide);
  document.addEventListener('scroll', hide, {passive: true, capture: true});
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });
}
