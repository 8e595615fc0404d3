// The tab Map: sentences in the plane, each with the ellipse of its spread. The drawing is in drawing.js.

import {post} from './api.js';
import {download, downloadTable, find, h, legendScale, pill, plural, rounded} from './dom.js';
import {Drawing, sign} from './drawing.js';
import {MAP} from './examples.js';
import {acceptFiles, linesOf, makeJob, showExamples} from './job.js';

const MOST = 300;
const panel = find('#map-panel'), form = find('form', panel), place = find('#map-answer'), below = find('#map-table');
const input = find('#map-input');

export const start = makeJob(form, place, draw);
showExamples(panel, MAP, [input], start);
acceptFiles(form, place, (text) => { input.value = text; });

async function draw(signal, told) {
  const texts = linesOf(input.value, 'sentences', {least: 2, most: MOST});
  told(0, 0, plural(texts.length, 'sentence'));
  const {data, groups} = await post('v1/map', {input: texts}, signal);
  const dots = data.map((dot) => ({...dot, text: texts[dot.index], number: dot.index + 1}));
  const drawing = new Drawing(dots, groups);
  const hasScores = dots.every((dot) => dot.score != null);
  const about = h('div', {class: 'about', role: 'status'});
  drawing.onchosen = (dot) => about.replaceChildren(...(dot ? describe(dot, dots, groups, hasScores) : [hint()]));
  drawing.onchosen(null);
  const tool = (label, name, act) => h('button', {type: 'button', class: 'quiet', 'aria-label': name, onclick: act}, label);
  place.replaceChildren(h('section', {class: 'card'},
    h('div', {class: 'bar'},
      hasScores ? colours(drawing) : null,
      h('span', {class: 'tools'}, tool('−', 'Zoom out', () => drawing.zoom(1 / 1.4)), tool('+', 'Zoom in', () => drawing.zoom(1.4)),
        tool('⟲', 'Show all', () => drawing.fit()))),
    drawing.element, legend(drawing, groups), about));
  drawing.fit();
  below.replaceChildren(table(dots, groups, drawing, hasScores));
}

function hint() {
  return h('p', {class: 'note'}, matchMedia('(pointer: coarse)').matches ? 'Tap a dot to read it. Zoom with two fingers or the buttons.'
    : 'Point at a dot to read it. Drag to move; click the map and scroll to zoom; arrow keys go from dot to dot.');
}

function describe(dot, dots, groups, hasScores) {
  const near = dots[dot.nearest];
  return [h('p', {dir: 'auto'}, hasScores ? pill(dot.score) : null, ` ${dot.number}. ${dot.text}`),
    h('p', {class: 'note'}, `Group: ${groups[dot.group].name}. Nearest (cosine ${dot.cosine.toFixed(2)}): ${near.number}. ${near.text}`)];
}

function colours(drawing) {
  const choice = (value, label, isOn) => h('label', {}, h('input', {
    type: 'radio', name: 'map-colour', value, checked: isOn, onchange: () => drawing.change({by: value}),
  }), label);
  return h('fieldset', {class: 'choice'}, h('legend', {}, 'Colour by'), choice('group', 'group', true), choice('score', 'specificity', false));
}

function legend(drawing, groups) {
  const buttons = groups.map((group, i) => h('button', {
    type: 'button', class: 'chip', 'aria-pressed': 'false',
    onclick: ({currentTarget: chip}) => {
      const isOn = chip.getAttribute('aria-pressed') !== 'true';
      buttons.forEach((each) => each.setAttribute('aria-pressed', each === chip && isOn));
      drawing.change({only: isOn ? i : null});
    },
  }, sign(i), `${group.name} (${group.size})`));
  return h('div', {class: 'legend'}, h('div', {class: 'chips', role: 'group', 'aria-label': 'Groups'}, ...buttons), legendScale());
}

function table(dots, groups, drawing, hasScores) {
  const order = [...dots].sort((a, b) => (hasScores ? a.score - b.score : b.total - a.total));
  const names = ['#', 'sentence', hasScores ? 'score' : null, 'group', 'nearest'].filter(Boolean);
  const rows = order.map((dot) => h('tr', {onclick: () => drawing.choose(dot)},
    h('td', {class: 'number'}, String(dot.number)), h('td', {dir: 'auto'}, dot.text),
    hasScores ? h('td', {}, pill(dot.score)) : null,
    h('td', {}, sign(dot.group), groups[dot.group].name),
    h('td', {}, `${dot.nearest + 1}. ${dots[dot.nearest].text}`)));
  const columns = ['cosine', 'total', 'x', 'y', 'rx', 'ry', 'angle'];
  const lines = dots.map((dot) => [dot.number, dot.text, rounded(dot.score), groups[dot.group].name,
    dot.nearest + 1, ...columns.map((name) => rounded(dot[name]))]);
  return h('section', {class: 'card'},
    h('div', {class: 'bar'}, h('h2', {}, 'Sentences, the vaguest first'),
      downloadTable('map.csv', ['number', 'sentence', 'score', 'group', 'nearest', ...columns], lines), download('Download PNG', 'map.png', () => drawing.png())),
    h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Sentences of the map'},
      h('table', {}, h('thead', {}, h('tr', {}, ...names.map((name) => h('th', {scope: 'col'}, name)))), h('tbody', {}, ...rows))));
}
