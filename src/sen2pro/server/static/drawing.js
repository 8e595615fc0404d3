// Draw a map: dots, ellipses and labels that do not cover each other; zoom, drag, keys, and a PNG file.

import {h, shade, svg} from './dom.js';

const SIGNS = [ // paths around (0, 0), one for each group, so that colour is not needed to tell them apart
  'M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z', 'M-4.5-4.5h9v9h-9Z', 'M0-6.2 6.2 0 0 6.2-6.2 0Z', 'M0-6 5.6 4.2h-11.2Z',
  'M-2-5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5Z', 'M0 6-5.6-4.2h11.2Z', 'M-5.5 0-2.8-4.8h5.6l2.7 4.8-2.7 4.8h-5.6Z', 'M-6-3h12v6h-12Z'];
const DIRECTIONS = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]};
const SNIPPETS = [42, 27]; // characters of a sentence beside its dot, where there is room
const ink = document.createElement('canvas').getContext('2d');
const FEW = 40; // dots whose labels are words; up to twice as many have numbers, more have none until one zooms in

/** Return the sign of a group, for legends and tables. */
export function sign(group) {
  return svg('svg', {class: `sign group${group % SIGNS.length}`, viewBox: '-7 -7 14 14', 'aria-hidden': 'true'},
    svg('path', {d: SIGNS[group % SIGNS.length]}));
}

export class Drawing {
  onchosen = () => {};
  #view = {x: 0, y: 0, scale: 1};
  #fingers = new Map();
  #chosen = null;

  constructor(dots, groups) {
    Object.assign(this, {dots, groups, by: 'group', only: null});
    this.picture = svg('svg', {'aria-hidden': 'true'});
    this.element = h('div', {
      class: 'map', tabindex: 0, role: 'application',
      'aria-label': `Map of ${dots.length} sentences. Arrow keys go from dot to dot, plus and minus zoom.`,
      onkeydown: (event) => this.#key(event), onpointerdown: (event) => this.#down(event), onpointermove: (event) => this.#move(event),
      onpointerup: (event) => this.#up(event), onpointercancel: (event) => this.#up(event),
    }, this.picture);
    this.element.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && document.activeElement !== this.element) return; // the page scrolls
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, {passive: false});
    new ResizeObserver(() => this.fit()).observe(this.element);
  }

  /** Show all dots. */
  fit() {
    const [width, height] = this.#size();
    const reach = (low, high) => [Math.min(...low), Math.max(...high)];
    const [left, right] = reach(this.dots.map((dot) => dot.x - dot.rx / 2), this.dots.map((dot) => dot.x + dot.rx / 2));
    const [bottom, top] = reach(this.dots.map((dot) => dot.y - dot.ry / 2), this.dots.map((dot) => dot.y + dot.ry / 2));
    this.#view = {
      x: (left + right) / 2, y: (bottom + top) / 2,
      scale: Math.min((width - 70) / Math.max(right - left, 1e-9), (height - 50) / Math.max(top - bottom, 1e-9)),
    };
    this.#draw();
  }

  /** Zoom around a place of the picture, by default its middle. */
  zoom(factor, x = this.#size()[0] / 2, y = this.#size()[1] / 2) {
    const [width, height] = this.#size(), view = this.#view;
    const [dx, dy] = [(x - width / 2) / view.scale, (height / 2 - y) / view.scale];
    this.#view = {x: view.x + dx - dx / factor, y: view.y + dy - dy / factor, scale: view.scale * factor};
    this.#draw();
  }

  /** Change `by`, the colours (group or score), or `only`, the group that stands out. */
  change(options) {
    Object.assign(this, options);
    this.#draw();
  }

  choose(dot) {
    if (this.#chosen === dot) return;
    this.#chosen = dot;
    this.#mark();
    this.onchosen(dot);
  }

  #size() {
    return [this.element.clientWidth || 600, this.element.clientHeight || 400];
  }

  #place(dot) {
    const [width, height] = this.#size(), {x, y, scale} = this.#view;
    return [width / 2 + (dot.x - x) * scale, height / 2 - (dot.y - y) * scale];
  }

  #draw() {
    const [width, height] = this.#size(), {scale} = this.#view;
    this.picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const ellipses = svg('g', {class: 'ellipses'}), marks = svg('g', {class: 'marks'});
    for (const dot of this.dots) {
      const [x, y] = this.#place(dot).map((each) => each.toFixed(1));
      const look = this.by === 'group' ? `group${dot.group % SIGNS.length}` : 'by-score';
      const kind = this.only !== null && this.only !== dot.group ? `${look} dim` : look;
      const ellipse = svg('ellipse', {class: kind, rx: dot.rx * scale, ry: dot.ry * scale, transform: `translate(${x} ${y}) rotate(${-dot.angle})`});
      dot.mark = svg('path', {class: kind, d: SIGNS[this.by === 'group' ? dot.group % SIGNS.length : 0], transform: `translate(${x} ${y})`});
      if (this.by === 'score') [ellipse, dot.mark].forEach((each) => shade(each, dot.score, 100));
      ellipses.append(ellipse);
      marks.append(dot.mark);
    }
    this.picture.replaceChildren(ellipses, marks, this.#labels(width, height));
    this.#mark();
  }

  #mark() {
    for (const dot of this.dots) dot.mark?.classList.toggle('chosen', dot === this.#chosen);
  }

  /** Return labels: names of groups first, then sentences or numbers; one that would cover something is left out. */
  #labels(width, height) {
    const labels = svg('g', {class: 'labels'});
    const taken = this.dots.map((dot) => { const [x, y] = this.#place(dot); return [x - 6, y - 6, x + 6, y + 6]; });
    const isFree = ([left, top, right, bottom]) => left > 2 && top > 2 && right < width - 2 && bottom < height - 2
      && taken.every(([l, t, r, b]) => right < l || left > r || bottom < t || top > b);
    const put = (text, places, font, high, kind) => {
      ink.font = `${font} system-ui, sans-serif`;
      const wide = ink.measureText(text).width;
      for (const [x, y, anchor] of places) {
        const left = x - wide * anchor;
        const box = [left, y - high * 0.8, left + wide, y + high * 0.3];
        if (!isFree(box)) continue;
        taken.push(box);
        labels.append(svg('text', {class: kind, x, y, 'text-anchor': {0: 'start', 1: 'end'}[anchor] ?? 'middle'}, text));
        return true;
      }
      return false;
    };
    this.groups.forEach((group, i) => {
      const members = this.dots.filter((dot) => dot.group === i).map((dot) => this.#place(dot));
      if (this.groups.length < 2 || !members.length) return;
      const away = ([x, y]) => members.reduce((sum, [a, b]) => sum + Math.hypot(a - x, b - y), 0);
      const [x, y] = members.reduce((one, other) => (away(other) < away(one) ? other : one)); // amid its group
      const places = [14, 30, 46, 62].flatMap((far) => [0.5, 0, 1].flatMap((anchor) => [[x, y - far, anchor], [x, y + far + 8, anchor]]));
      put(group.name, places, '700 14px', 15, `name group${i % SIGNS.length}`);
    });
    const seen = this.dots.filter((dot) => { const [x, y] = this.#place(dot); return x > 0 && y > 0 && x < width && y < height; });
    const hasWords = seen.length <= FEW && width > 480;
    for (const dot of seen.length <= 2 * FEW ? seen : []) {
      const [x, y] = this.#place(dot);
      const places = [[x + 9, y + 4, 0], [x - 9, y + 4, 1], [x, y - 11, 0.5], [x, y + 19, 0.5], [x + 7, y - 7, 0], [x - 7, y - 7, 1], [x + 7, y + 14, 0], [x - 7, y + 14, 1]];
      const texts = hasWords ? SNIPPETS.map((most) => (dot.text.length > most ? `${dot.text.slice(0, most).replace(/\s+\S*$/, '')} …` : dot.text)) : [];
      [...texts, String(dot.number)].some((text) => put(text, places, '11.5px', 12, 'words'));
    }
    return labels;
  }

  #nearest(x, y, most) {
    let best = null;
    for (const dot of this.dots) {
      const [a, b] = this.#place(dot), far = Math.hypot(a - x, b - y);
      if (far < most) [best, most] = [dot, far];
    }
    return best;
  }

  #key(event) {
    const way = DIRECTIONS[event.key];
    const zooms = {'+': 1.4, '=': 1.4, '-': 1 / 1.4};
    if (way) this.choose(this.#next(way) ?? this.#chosen);
    else if (event.key in zooms) this.zoom(zooms[event.key]);
    else if (event.key === '0') this.fit();
    else if (event.key === 'Escape') this.choose(null);
    else return;
    event.preventDefault();
  }

  #next([dx, dy]) {
    if (!this.#chosen) return this.dots[0];
    const [x, y] = this.#place(this.#chosen);
    const ahead = this.dots.filter((dot) => dot !== this.#chosen).map((dot) => {
      const [a, b] = this.#place(dot), along = (a - x) * dx + (b - y) * dy, aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      return {dot, far: along > 0.5 && along > aside / 2 ? along + 2 * aside : Infinity};
    });
    return ahead.reduce((a, b) => (b.far < a.far ? b : a), {far: Infinity}).dot;
  }

  #down(event) {
    this.#fingers.set(event.pointerId, [event.clientX, event.clientY]);
    if (event.pointerType === 'mouse') this.element.setPointerCapture(event.pointerId);
    const box = this.element.getBoundingClientRect();
    const dot = this.#nearest(event.clientX - box.left, event.clientY - box.top, event.pointerType === 'mouse' ? 14 : 26);
    if (dot || event.pointerType !== 'mouse') this.choose(dot);
  }

  #move(event) {
    const box = this.element.getBoundingClientRect(), before = this.#fingers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === 'mouse') this.choose(this.#nearest(event.clientX - box.left, event.clientY - box.top, 14) ?? this.#chosen);
      return;
    }
    const spread = () => { const [[a, b], [c, d] = [a - 1, b]] = [...this.#fingers.values()]; return Math.hypot(a - c, b - d); };
    const old = spread();
    this.#fingers.set(event.pointerId, [event.clientX, event.clientY]);
    this.#view.x -= (event.clientX - before[0]) / this.#fingers.size / this.#view.scale;
    this.#view.y += (event.clientY - before[1]) / this.#fingers.size / this.#view.scale;
    this.zoom(spread() / old, event.clientX - box.left, event.clientY - box.top); // with one finger by 1
  }

  #up(event) {
    this.#fingers.delete(event.pointerId);
  }

  /** Return the picture as a PNG file: colours are copied from the style sheet into a copy of the drawing. */
  async png() {
    const copy = this.picture.cloneNode(true), [width, height] = this.#size();
    const originals = this.picture.querySelectorAll('*');
    copy.querySelectorAll('*').forEach((each, i) => {
      const look = getComputedStyle(originals[i]);
      for (const name of ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'opacity', 'font-size', 'font-weight', 'font-family', 'paint-order']) {
        each.setAttribute(name, look.getPropertyValue(name));
      }
    });
    copy.prepend(svg('rect', {width, height, fill: getComputedStyle(this.element).backgroundColor}));
    copy.setAttribute('width', width);
    copy.setAttribute('height', height);
    const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], {type: 'image/svg+xml'}));
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = h('canvas', {width: 2 * width, height: 2 * height});
    canvas.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
    URL.revokeObjectURL(address);
    return new Promise((done) => canvas.toBlob(done, 'image/png'));
  }
}
