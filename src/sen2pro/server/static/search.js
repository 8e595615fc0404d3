// The tab Search: documents, a question, and hits with probabilities, or no good match.

import {inParts, post} from './api.js';
import {bar, downloadTable, find, h, percent, plural, rounded} from './dom.js';
import {SEARCH} from './examples.js';
import {acceptFiles, linesOf, makeJob, showExamples, textOf} from './job.js';

const HITS = 5; // that are shown
const DEPTH = 10; // that the probability of a hit depends on
const PART = 64; // documents
const panel = find('#search-panel'), form = find('form', panel), place = find('#search-answer');
const documents = find('#documents'), question = find('#question');

export const start = makeJob(form, place, search);
showExamples(panel, SEARCH, [question, documents], start);
acceptFiles(form, place, (text) => { documents.value = text; });

async function search(signal, told) {
  const query = textOf(question, 'question');
  const lines = linesOf(documents.value, 'documents', {most: 1000});
  const ask = async (numbers, k) => {
    const texts = numbers.map((number) => lines[number]);
    const {data: [result]} = await post('v1/search', {queries: query, documents: texts, k: Math.min(k, texts.length)}, signal);
    const place = ({id, text}) => (texts[Number(id)] === text ? Number(id) : texts.indexOf(text));
    return {...result, hits: result.hits.map((hit) => ({...hit, number: numbers[place(hit)]}))};
  };
  let numbers = lines.map((_, number) => number);
  if (numbers.length > PART) { // the best hits of all parts hold the best of all documents
    const found = await inParts(numbers, PART, async (part) => (await ask(part, DEPTH)).hits, (done, total) => told(done, total, 'documents'));
    numbers = found.sort((a, b) => b.similarity - a.similarity).slice(0, DEPTH).map((hit) => hit.number);
  } else {
    told(0, 0, plural(numbers.length, 'document'));
  }
  show(await ask(numbers, HITS), query, lines.length);
}

function show({hits, answer}, query, count) {
  const [first] = hits, isKnown = first?.probability != null;
  const best = isKnown ? `The most likely of ${plural(count, 'document')} has ${percent(first.probability)}.` : '';
  const head = answer == null
    ? h('section', {class: 'card verdict unlikely'}, h('div', {}, h('h2', {}, 'No good match'),
      h('p', {}, `None of the documents is likely to answer this. ${best}`)))
    : h('section', {class: `card verdict ${isKnown ? 'likely' : 'unsure'}`}, h('div', {}, h('h2', {dir: 'auto'}, first.text),
      h('p', {}, isKnown ? `${percent(first.probability)} likely right. Best match of ${plural(count, 'document')}.`
        : `Best match of ${plural(count, 'document')}; probabilities are not calibrated for this model.`)));
  const list = h('ol', {class: 'card hits'}, ...hits.map((hit) => h('li', {},
    h('p', {dir: 'auto'}, hit.text),
    hit.probability == null ? null : bar(hit.probability),
    hit.probability == null ? null : h('b', {}, percent(hit.probability)),
    h('small', {}, `document ${hit.number + 1} · similarity ${hit.similarity.toFixed(2)}`))));
  const rows = hits.map((hit) => [query, hit.number + 1, hit.text, rounded(hit.probability), rounded(hit.similarity)]);
  place.replaceChildren(head, list, downloadTable('hits.csv', ['question', 'document', 'text', 'probability', 'similarity'], rows));
}
