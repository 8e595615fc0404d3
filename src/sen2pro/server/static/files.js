// Open files in the browser: text, CSV, TSV and JSONL. Nothing is uploaded.

import {Problem} from './api.js';

const MOST = 2 << 20; // bytes
const TEXTS = ['text', 'sentence'];

/** Return a file as text (`kind` "text"), as lines ("lines"), or as lines "label: text" ("labels"). */
export async function openFile(file, kind) {
  if (file.size > MOST) throw new Problem(`${file.name} has ${file.size.toLocaleString('en')} bytes; the limit is ${MOST.toLocaleString('en')}.`);
  const text = (await file.text()).replace(/^\ufeff/, '').replace(/\r\n?/g, '\n');
  if (text.includes('\0')) throw new Problem(`${file.name} is not a text file.`);
  const suffix = file.name.toLowerCase().split('.').pop();
  if (!['csv', 'tsv', 'jsonl'].includes(suffix)) return text;
  const rows = suffix === 'jsonl' ? readJsonLines(text, file.name) : readTable(text, suffix === 'tsv' ? '\t' : ',');
  return rows.map((row) => line(row, kind, file.name)).filter(Boolean).join('\n');
}

function line(row, kind, name) {
  const column = TEXTS.find((each) => each in row);
  if (column === undefined) throw new Problem(`${name} has no column named ${TEXTS.join(' or ')}; it has ${Object.keys(row).slice(0, 8).join(', ')}.`);
  const text = String(row[column] ?? '').replace(/\s+/g, ' ').trim();
  if (kind !== 'labels' || !text) return text;
  if (!('label' in row)) throw new Problem(`${name} has no column named label.`);
  return `${row.label}: ${text}`;
}

function readJsonLines(text, name) {
  return text.split('\n').filter((each) => each.trim()).map((each, i) => {
    try {
      const row = JSON.parse(each);
      if (row !== null && typeof row === 'object') return row;
    } catch { /* the same error as for a row that is not an object */ }
    throw new Problem(`Line ${i + 1} of ${name} is not a JSON object.`);
  });
}

/** Return the rows of a table as objects; a quoted field may hold separators and line breaks. */
function readTable(text, separator = ',') {
  const rows = [[]];
  const field = new RegExp(`"([^"]*(?:""[^"]*)*)"|([^${separator}\n]*)`, 'y');
  for (let place = 0; place < text.length; place += 1) {
    field.lastIndex = place;
    const [whole, quoted, plain] = field.exec(text);
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    place += whole.length;
    if (text[place] === '\n') rows.push([]);
  }
  const [header, ...lines] = rows.filter((row) => row.some((each) => each.trim()));
  const names = (header ?? []).map((name) => name.trim().toLowerCase());
  return lines.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i] ?? ''])));
}
