// The tab Classify: a dozen labelled lines, then texts of one's own.

import {inParts, post, Problem} from './api.js';
import {bar, downloadTable, find, h, percent, rounded} from './dom.js';
import {CLASSIFY} from './examples.js';
import {acceptFiles, linesOf, makeJob, showExamples} from './job.js';

const LIKELY = 0.7, MOST_EXAMPLES = 200, MOST_LABELS = 20, LONGEST_LABEL = 60, PART = 16;
const panel = find('#classify-panel'), form = find('form', panel), place = find('#classify-answer');
const tried = find('#tried'), labelled = find('#labelled');

export const start = makeJob(form, place, classify);
showExamples(panel, CLASSIFY, [tried, labelled], start);
acceptFiles(form, place, (text) => { labelled.value = text; }, 'labels');

async function classify(signal, told) {
  const examples = readExamples(labelled.value);
  const texts = linesOf(tried.value, 'texts to classify', {most: 200});
  const found = await inParts(texts, PART, async (input) => (await post('v1/classify', {input, examples}, signal)).data,
    (done, total) => told(done, total, 'texts'));
  show(texts, found);
}

/** Return [{text, label}, ...] from lines "label: text". */
function readExamples(pasted) {
  const examples = linesOf(pasted, 'examples', {most: MOST_EXAMPLES, characters: 1100}).map(readExample);
  const labels = new Set(examples.map((each) => each.label));
  if (labels.size > MOST_LABELS) throw new Problem(`There are ${labels.size} labels; the limit is ${MOST_LABELS}.`);
  const odd = examples.findIndex(({label, text}) => !label || label.length > LONGEST_LABEL || !text || text.length > 1000);
  if (odd >= 0) throw new Problem(`Example ${odd + 1} needs a label of 1 to ${LONGEST_LABEL} characters and a text of 1 to 1,000.`);
  return examples;
}

function readExample(line, i) {
  const colon = line.indexOf(':');
  if (colon < 1 || !line.slice(colon + 1).trim()) throw new Problem(`Line ${i + 1} is not of the form label: text, for example sport: She won the final set.`);
  return {label: line.slice(0, colon).trim(), text: line.slice(colon + 1).trim()};
}

function show(texts, found) {
  const labels = [...new Set(found.flatMap((each) => Object.keys(each.probabilities)))];
  const cards = found.map((each, i) => {
    const isLikely = each.probability >= LIKELY;
    const order = [...labels].sort((a, b) => each.probabilities[b] - each.probabilities[a]);
    return h('section', {class: `card verdict ${isLikely ? 'likely' : 'unsure'}`},
      h('div', {}, h('h2', {}, isLikely ? String(each.label) : `unsure, perhaps ${each.label}`), h('p', {dir: 'auto'}, texts[i])),
      h('ul', {class: 'bars'}, ...order.map((label) => h('li', {},
        h('span', {}, label), bar(each.probabilities[label]), h('b', {}, percent(each.probabilities[label]))))));
  });
  const rows = found.map((each, i) => [texts[i], String(each.label), each.probability >= LIKELY ? 'yes' : 'no',
    ...labels.map((label) => rounded(each.probabilities[label]))]);
  place.replaceChildren(...cards, downloadTable('classes.csv', ['text', 'label', 'likely', ...labels], rows));
}
