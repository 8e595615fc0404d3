// What all tabs share: examples to click, files to open, a button that works, its progress, and Stop.

import {Problem} from './api.js';
import {find, h, message} from './dom.js';
import {openFile} from './files.js';

/** Have the form of a tab do `work(signal, told)`; errors are shown in `place`. Returns a function that starts it. */
export function makeJob(form, place, work) {
  const start = find('.primary', form), row = find('.job', form);
  const progress = h('progress', {max: 1, 'aria-label': 'Progress'}), label = h('span', {role: 'status'});
  const stop = h('button', {type: 'button', class: 'stop', hidden: true, onclick: () => controller?.abort()}, 'Stop');
  const shown = h('span', {class: 'progress', hidden: true}, progress, label);
  row.append(stop, shown);
  let controller = null;

  function told(done, total, what) {
    if (total > 0) [progress.max, progress.value] = [total, done];
    else progress.removeAttribute('value');
    label.textContent = total > 0 ? `${done.toLocaleString('en')} of ${total.toLocaleString('en')} ${what}` : what;
  }

  async function run() {
    controller?.abort(); // a new text: nobody waits for the last one
    const own = controller = new AbortController();
    start.disabled = true;
    label.textContent = '';
    const patience = setTimeout(() => { shown.hidden = stop.hidden = false; }, 250); // short work shows no bar
    let end = null;
    try {
      await work(own.signal, told);
    } catch (error) {
      if (own !== controller) return;
      if (error.name === 'AbortError') end = message('Stopped. Your texts are still here.', 'note');
      else if (error instanceof Problem) end = message(error.message);
      else throw error;
    } finally {
      clearTimeout(patience);
      if (own === controller) {
        controller = null;
        start.disabled = false;
        shown.hidden = stop.hidden = true;
        if (end) place.replaceChildren(end);
      }
    }
  }
  form.addEventListener('submit', (event) => { event.preventDefault(); run(); });
  return run;
}

/** Show examples as buttons that fill the fields and start the work; the first is filled in at once. */
export function showExamples(panel, examples, fields, run) {
  const place = h('div', {class: 'chips', role: 'group', 'aria-label': 'Examples'});
  find('.lead', panel).append(place);
  const choose = (values) => fields.forEach((field, i) => { field.value = values[i]; });
  for (const [name, values] of Object.entries(examples)) {
    place.append(h('button', {type: 'button', class: 'chip', onclick: () => { choose(values); run(); }}, name));
  }
  choose(Object.values(examples)[0]);
}

/** Let a file be chosen, or a file or text be dropped on the tab; `use(text)` gets its lines. */
export function acceptFiles(form, place, use, kind = 'lines') {
  const input = find('input[type=file]', form), panel = form.closest('[role=tabpanel]');
  const take = async (file) => {
    try {
      use(await openFile(file, kind));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(message(error.message));
    }
  };
  input.addEventListener('change', () => {
    if (input.files[0]) take(input.files[0]);
    input.value = '';
  });
  panel.addEventListener('dragover', (event) => { event.preventDefault(); form.classList.add('over'); });
  panel.addEventListener('dragleave', () => form.classList.remove('over'));
  panel.addEventListener('drop', (event) => {
    form.classList.remove('over');
    const file = event.dataTransfer.files[0], text = event.dataTransfer.getData('text/plain');
    if (!file && (!text.trim() || event.target.matches('textarea, input'))) return; // the field takes it
    event.preventDefault();
    if (file) take(file);
    else use(text);
  });
}

/** Return the lines of a field without blank ones; too many or too long ones are a Problem. */
export function linesOf(text, what, {least = 1, most, characters = 1000}) {
  const lines = text.split('\n').map((line) => line.replace(/\s+/g, ' ').trim()).filter(Boolean);
  const long = lines.findIndex((line) => line.length > characters);
  if (!lines.length) throw new Problem(`There are no ${what} yet. Write one per line, open a file, or choose an example.`);
  if (lines.length < least) throw new Problem(`Give at least ${least} ${what}, one per line.`);
  if (lines.length > most) throw new Problem(`There are ${lines.length.toLocaleString('en')} ${what}; the limit is ${most.toLocaleString('en')}.`);
  if (long >= 0) throw new Problem(`Number ${long + 1} of the ${what} has ${lines[long].length.toLocaleString('en')} characters; the limit is ${characters.toLocaleString('en')}.`);
  return lines;
}

/** Return the one text of a field. */
export function textOf(field, what) {
  const text = field.value.replace(/\s+/g, ' ').trim();
  if (!text) throw new Problem(`The ${what} is empty. Write something, or choose an example.`);
  if (text.length > 1000) throw new Problem(`The ${what} has ${text.length.toLocaleString('en')} characters; the limit is 1,000.`);
  return text;
}
