// The tab Read: a text as it is, each sentence shaded by how specific it is, and the words that carry one.

import {inParts, post, Problem} from './api.js';
import {downloadTable, find, h, legendScale, message, pill, plural, rounded, shade, shadedWords, svg} from './dom.js';
import {READ} from './examples.js';
import {acceptFiles, makeJob, showExamples} from './job.js';
import {findSentences} from './sentences.js';

const MOST = 200_000; // characters
const PART = 16; // sentences: a fraction of a second
const VAGUEST = 7;
const panel = find('#read-panel'), form = find('form', panel), paper = find('#read-text'), side = find('#read-side');
const input = find('#read-input'), detail = find('#read-detail'), edit = find('#read-edit'), submit = find('.primary', form);
let sentences = []; // {text, element, score, at_length}
let chosen = null;

export const start = makeJob(form, side, read);
showExamples(panel, READ, [input], start);
acceptFiles(form, side, use, 'text');
edit.addEventListener('click', () => write(input.hidden));

function use(text) {
  input.value = text;
  start();
}

/** Show the field to write in, or the text that was read. */
function write(isWriting) {
  input.hidden = submit.hidden = !isWriting;
  paper.hidden = isWriting;
  edit.textContent = isWriting ? 'Cancel' : 'Edit';
  if (isWriting) {
    choose(null);
    input.focus();
  }
}

// A text that is pasted anywhere on the tab is read at once.
document.addEventListener('paste', (event) => {
  if (panel.hidden || event.target.closest?.('textarea, input, dialog')) return;
  const text = event.clipboardData.getData('text/plain');
  if (text.trim()) use(text);
});

async function read(signal, told) {
  const text = input.value.replace(/\r\n?/g, '\n').replace(/^\s*\n|\s+$/g, '');
  if (text.length > MOST) throw new Problem(`The text has ${text.length.toLocaleString('en')} characters; the limit is ${MOST.toLocaleString('en')}.`);
  const places = findSentences(text);
  if (!places.length) throw new Problem('There is no text yet. Paste one, open a file, or choose an example.');
  write(false);
  choose(null);
  show(text, places);
  side.replaceChildren(h('div', {class: 'card waiting'}, h('p', {}, 'Reading…')));
  const own = sentences;
  await inParts(own, PART, async (part) => {
    const answer = await post('v1/specificity', {input: part.map((each) => each.text)}, signal);
    answer.data.forEach((found, i) => score(Object.assign(part[i], found)));
    return answer.data;
  }, (done, total) => told(done, total, 'sentences'));
  summarize(own);
  if (matchMedia('(min-width: 900px)').matches) choose(vaguest(own)[0], false);
}

function show(text, places) {
  let end = 0;
  paper.replaceChildren();
  sentences = places.map((place, i) => {
    const element = h('span', {
      class: 'sentence', role: 'button', tabindex: i ? -1 : 0, onclick: () => choose(sentences[i]), onkeydown: (event) => move(event, i),
    }, text.slice(place.start, place.end));
    paper.append(text.slice(end, place.start), element);
    end = place.end;
    return {number: i + 1, text: text.slice(place.start, place.end).replace(/\s+/g, ' '), element};
  });
  paper.append(text.slice(end));
}

function score(sentence) {
  const said = `${Math.round(sentence.score)} of 100: more specific than ${Math.round(sentence.score)} % of English sentences`;
  shade(sentence.element, sentence.score);
  sentence.element.classList.add('scored');
  sentence.element.dataset.tip = said;
  sentence.element.setAttribute('aria-description', said);
}

const vaguest = (given) => [...given].sort((a, b) => a.score - b.score);

function summarize(given) {
  const order = vaguest(given);
  const middle = (order[(order.length - 1) >> 1].score + order[order.length >> 1].score) / 2;
  const list = h('ol', {class: 'vaguest'});
  order.slice(0, VAGUEST).filter((each, i) => i < 3 || each.score < 50).forEach((sentence, i) => {
    sentence.element.dataset.rank = i + 1;
    list.append(h('li', {}, h('button', {type: 'button', onclick: () => choose(sentence, true)}, pill(sentence.score), h('span', {}, sentence.text))));
  });
  const strokes = given.map(({score: x}) => svg('line', {x1: 1 + 2.98 * x, x2: 1 + 2.98 * x, y1: 2, y2: 20}));
  const rows = given.map((each) => [each.number, each.text, rounded(each.score), rounded(each.at_length)]);
  side.replaceChildren(
    h('div', {class: 'card'},
      h('p', {class: 'big'}, h('b', {}, String(Math.round(middle))), ` median score of ${plural(given.length, 'sentence')}`),
      legendScale(svg('svg', {viewBox: '0 0 300 22', preserveAspectRatio: 'none'}, ...strokes)),
      h('p', {class: 'note'}, 'A score of 70 means more specific than 70 % of English sentences.')),
    h('div', {class: 'card'},
      h('h2', {}, 'The vaguest sentences'), list,
      downloadTable('sentences.csv', ['number', 'sentence', 'score', 'score_at_length'], rows)),
  );
}

function move(event, i) {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    choose(sentences[i]);
  } else if (step && sentences[i + step]) {
    event.preventDefault();
    sentences[i].element.tabIndex = -1;
    sentences[i + step].element.tabIndex = 0;
    sentences[i + step].element.focus();
  }
}

/** Show the words that carry a sentence; null shows none. */
async function choose(sentence, isVisible = false) {
  chosen?.element.classList.remove('chosen');
  chosen = sentence;
  detail.hidden = !sentence;
  if (!sentence) return;
  sentence.element.classList.add('chosen');
  if (isVisible) sentence.element.scrollIntoView({block: 'nearest'});
  const close = h('button', {type: 'button', class: 'quiet close', 'aria-label': 'Close', onclick: () => choose(null)}, '×');
  const about = [pill(sentence.score), h('h2', {}, 'The words that carry this sentence')];
  const note = sentence.score == null ? null : h('p', {class: 'note'},
    `More specific than ${Math.round(sentence.score)} % of English sentences, and ${Math.round(sentence.at_length)} % of those of its length. `
    + 'Below each word is its share of the meaning.');
  const fill = (words) => { if (chosen === sentence) detail.replaceChildren(h('div', {class: 'bar'}, ...about, close), words, note ?? ''); };
  fill(sentence.words ? shadedWords(sentence.words) : h('p', {class: 'words waiting', dir: 'auto'}, sentence.text));
  if (sentence.words) return;
  try {
    sentence.words = (await post('v1/explain', {input: sentence.text})).data[0];
    fill(shadedWords(sentence.words));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fill(message(error.message));
  }
}
