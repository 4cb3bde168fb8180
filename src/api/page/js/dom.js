// Elements are made here and nowhere else, so that whatever a skill says becomes text, and never markup.

/** Characters that a text shows at once. Protects the page from one line that is as long as a skill likes. */
const TEXT_CHARS_MAX = 4_000;
/** Characters that are shown for one press of the button. */
const MORE_CHARS = 100_000;
/** Characters that are shown in the end. Protects the page likewise. */
const ALL_CHARS_MAX = 2_000_000;
/** Characters of one block of a long text. Protects the page from laying out all of it at once. */
const BLOCK_CHARS = 8_000;
/** How much more a character costs in a line without an end, which is always laid out. Protects the page from stalling. */
const UNBROKEN_FACTOR = 2;
/** UTF-16 units that one character is taken to have at most. Protects the page from one that is as long as a skill likes. */
const CHARACTER_UNITS_MAX = 64;
/** What belongs to the character before it. */
const JOINED = /^[\p{M}\p{Emoji_Modifier}]/u;

// Controls, characters that take no room, and those that change the direction of what is around them: with
// them a text can look like another one. Line break and tab are seen for what they are.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

// A backslash before what looks like an escape, or becomes one, is doubled, so that each text looks like no other.
const ESCAPING = new RegExp(`\\\\+(?=u\\{|${INVISIBLE.source})`, 'gu');

/** The text with whatever cannot be seen as an escape. */
export function visible(text) {
  return String(text).replace(ESCAPING, '$&$&').replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'path', 'rect', 'line', 'polyline', 'polygon', 'circle', 'g']);

/**
 * An element. A function among the attributes is a listener of the event (`onclick`), `class` and `dataset` are
 * what they are called, `style` is an object of properties; `false`, `null` and `undefined` leave an attribute
 * out, `true` sets it empty. Children are nodes, texts, numbers, or arrays of these; empty ones are left out.
 */
export function h(tag, attributes, ...children) {
  const element = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith('on')) {
    // A text would be a script; only functions of this page listen.
    if (typeof value !== 'function') throw new TypeError(`${name} is no function`);
    element.addEventListener(name.slice(2), value);
  } else if (name === 'style') {
    for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
  } else if (name === 'dataset') {
    for (const [key, text] of Object.entries(value)) element.dataset[key] = text;
  } else if (name === 'value') {
    element.value = value;
  } else if (['href', 'src', 'action', 'formaction', 'srcdoc', 'srcset'].includes(name)) {
    if (name !== 'href' || !/^(#|\/(?!\/)|blob:)/.test(value)) throw new TypeError(`${name} leads out of this page`);
    element.setAttribute(name, value);
  } else {
    element.setAttribute(name, value === true ? '' : visible(value));
  }
}

/** Appends what `h` takes as children. */
export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === '') continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

/** Puts `children` in the place of all that is in `element`. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** The place at or before `at` where a text can be cut without a character coming apart, as long as that is near. */
export function cutAt(whole, at) {
  for (let place = at; place > Math.max(0, at - CHARACTER_UNITS_MAX); place -= 1) {
    const isWithin = /[\udc00-\udfff]/.test(whole[place] ?? '') && /[\ud800-\udbff]/.test(whole[place - 1]);
    if (!isWithin && !JOINED.test(whole.slice(place, place + 2))) return place;
  }
  return at;
}

/**
 * What of a text is appended at once, from `from` on: stretches that end at `end`. Those of whole lines can be blocks,
 * which are laid out where they are in sight; between any others a block would break a line.
 */
export function stretchesOf(whole, from) {
  const all = cutAt(whole, Math.min(whole.length, ALL_CHARS_MAX));
  const stretches = [];
  let at = from;
  let charsLeft = MORE_CHARS;
  while (at < all && charsLeft > 0) {
    const limit = cutAt(whole, Math.min(all, at + BLOCK_CHARS));
    const piece = whole.slice(at, limit);
    const isAtLine = at === 0 || whole[at - 1] === '\n';
    const lines = isAtLine ? piece.lastIndexOf('\n') + 1 : 0;
    const isLines = lines > 0 || isAtLine && limit === whole.length;
    const end = isLines ? at + (limit === whole.length ? piece.length : lines) : at + (piece.indexOf('\n') + 1 || piece.length);
    charsLeft -= (end - at) * (isLines ? 1 : UNBROKEN_FACTOR);
    stretches.push({ start: at, end, isLines });
    at = end;
  }
  return stretches;
}

/** Foreign text in a `pre`, cut where it is long, with a button for what follows, a stretch at a time. */
export function text(foreign, { max = TEXT_CHARS_MAX, label = 'text' } = {}) {
  const whole = String(foreign ?? '');
  let shown = whole.length <= max ? whole.length : cutAt(whole, max);
  const pre = h('pre', { class: 'text', tabindex: '0', role: 'group', 'aria-label': label }, whole.slice(0, shown));
  if (shown === whole.length) return pre;
  let next = stretchesOf(whole, shown);
  const button = h('button', { type: 'button', class: 'quiet', onclick: more });
  const note = h('span', { class: 'dim' });
  function tell() {
    button.hidden = next.length === 0;
    if (next.length > 0) fill(button, `Show ${(next.at(-1).end - shown).toLocaleString('en')} more characters`);
    fill(note, `${shown.toLocaleString('en')} of ${whole.length.toLocaleString('en')} characters are shown`);
  }
  function more() {
    for (const { start, end, isLines } of next) pre.append(h('span', { class: isLines ? 'block' : null }, whole.slice(start, end)));
    shown = next.at(-1).end;
    next = stretchesOf(whole, shown);
    tell();
    if (button.hidden) pre.focus();
  }
  tell();
  return h('div', { class: 'cut' }, pre, button, note);
}

/** Foreign text in one line, cut without a way to the rest: for rows that lead to a place that shows it. */
export function line(foreign, max = 200) {
  const whole = String(foreign ?? '');
  const flat = whole.slice(0, cutAt(whole, max)).replace(/\s+/g, ' ');
  return whole.length > max ? `${flat}…` : flat;
}
