// The tab Compare: two sentences, the answer in words, a dial, and the words that carry each.

import {post, Problem} from './api.js';
import {downloadTable, find, h, message, percent, rounded, shadedWords, svg} from './dom.js';
import {COMPARE} from './examples.js';
import {makeJob, showExamples, textOf} from './job.js';

const HIGHEST = 5;
const WORDS = {likely: 'Likely the same meaning', unsure: 'Perhaps the same meaning', unlikely: 'Unlikely to be the same meaning'};
const panel = find('#compare-panel'), form = find('form', panel), place = find('#compare-answer');
const fields = [find('#first'), find('#second')];

export const start = makeJob(form, place, compare);
showExamples(panel, COMPARE, fields, start);
for (const field of fields) {
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  });
}

async function compare(signal, told) {
  const texts = [textOf(fields[0], 'first sentence'), textOf(fields[1], 'second sentence')];
  told(0, 2, 'steps');
  const [first, second] = texts;
  const shown = await orMessage(async () => verdict((await post('v1/compare', {first, second}, signal)).data[0], first, second));
  place.replaceChildren(shown);
  told(1, 2, 'steps');
  place.append(await orMessage(async () => {
    const {data} = await post('v1/explain', {input: texts}, signal);
    return h('div', {}, ...data.map((words, i) => h('section', {class: 'card'},
      h('h3', {}, `Words that carry the ${i ? 'second' : 'first'} sentence`), shadedWords(words))));
  }));
}

/** Return what `make` makes, or why it cannot be had: models without numbers for Compare have their words all the same. */
async function orMessage(make) {
  try {
    return await make();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return message(error.message);
  }
}

function verdict(answer, first, second) {
  const {probability, similarity, low, high, vaguer, verdict, coverage} = answer;
  const columns = ['probability', 'similarity', 'low', 'high'];
  const row = [first, second, ...columns.map((name) => rounded(answer[name])), vaguer ?? ''];
  return h('section', {class: `card verdict ${verdict}`},
    h('div', {},
      h('p', {class: 'big'}, h('b', {}, percent(probability))),
      h('h2', {}, WORDS[verdict]),
      h('p', {}, `Similarity ${similarity.toFixed(1)} of ${HIGHEST}, probably between ${low.toFixed(1)} and ${high.toFixed(1)}.`),
      h('p', {}, vaguer ? `The ${vaguer} sentence is the vaguer one.` : 'Both are about equally specific.'),
      coverage < 0.01 ? h('p', {class: 'note'}, 'The model was not trained on text like this; treat the numbers as a rough guide.') : null,
      downloadTable('comparison.csv', ['first', 'second', ...columns, 'vaguer'], [row])),
    dial(similarity, low, high));
}

/** Return the similarity as a dial from 0 to 5; a broad arc is its interval. */
function dial(similarity, low, high) {
  const middle = 130, radius = 100;
  const at = (grade, far = radius) => {
    const turn = Math.PI * (1 - grade / HIGHEST);
    return [middle + far * Math.cos(turn), middle - far * Math.sin(turn)].map((each) => each.toFixed(1));
  };
  const arc = (from, to) => `M ${at(from).join(' ')} A ${radius} ${radius} 0 0 1 ${at(to).join(' ')}`;
  const [[x1, y1], [x2, y2]] = [at(similarity, radius - 12), at(similarity, radius + 12)];
  const ends = [Math.min(low, HIGHEST - 0.02), Math.min(Math.max(high, low + 0.02), HIGHEST)];
  const ticks = [0, 1, 2, 3, 4, 5].map((grade) => {
    const [x, y] = at(grade, radius - 26);
    return svg('text', {x, y: Number(y) + 4, class: 'tick'}, String(grade));
  });
  const said = `Similarity ${similarity.toFixed(1)} of ${HIGHEST}, probably between ${low.toFixed(1)} and ${high.toFixed(1)}`;
  return svg('svg', {class: 'dial', viewBox: '0 0 260 152', role: 'img', 'aria-label': said},
    svg('path', {class: 'track', d: arc(0, HIGHEST)}), svg('path', {class: 'interval', d: arc(...ends)}),
    svg('line', {x1, y1, x2, y2}), ...ticks,
    svg('text', {x: middle, y: middle - 18, class: 'value'}, similarity.toFixed(1)),
    svg('text', {x: middle, y: middle + 4, class: 'range'}, `${low.toFixed(1)} to ${high.toFixed(1)}`));
}
