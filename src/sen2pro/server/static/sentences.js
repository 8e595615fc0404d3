// Find the sentences of a text, with their places, so that the text can be shown as it is.

const ABBREVIATION = /(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|No|Nr|vs|Fig|cf|approx|[A-Z]|e\.g|i\.e)\.\s*$/;
const segmenter = new Intl.Segmenter('en', {granularity: 'sentence'});

/** Return the places {start, end} of the sentences of a text, without the blanks around them. */
export function findSentences(text) {
  const places = [];
  for (const {segment, index} of segmenter.segment(joinLines(text))) {
    const last = places.at(-1);
    if (last && last.end === index && ABBREVIATION.test(text.slice(last.start, index))) last.end = index + segment.length;
    else places.push({start: index, end: index + segment.length});
  }
  return places.map((place) => trimmed(text, place)).filter(({start, end}) => /\p{L}/u.test(text.slice(start, end)));
}

/** Return the text, equally long, with a blank for each line break inside a sentence: e-mails have them. */
function joinLines(text) {
  return text.replace(/(?<=[^\n.?!:;]{40})\n(?=[\p{L}\p{N}("“])|(?<=[\p{L},])\n(?=\p{Ll})/gu, ' ');
}

function trimmed(text, {start, end}) {
  const found = text.slice(start, end);
  return {start: start + found.length - found.trimStart().length, end: end - found.length + found.trimEnd().length};
}
