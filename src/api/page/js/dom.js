// Elements are made here and nowhere else, so that whatever a skill says becomes text, and never markup.

/** Characters that a text shows at once. Protects the page from one line that is as long as a skill likes. */
const TEXT_CHARS_MAX = 4_000;
/** Characters that are shown for one press of the button. */
const MORE_CHARS = 100_000;
/** Characters that are shown in the end. Protects the page likewise. */
const ALL_CHARS_MAX = 2_000_000;
/** Characters of one block of a long text. Protects the page from laying out all of it at once. */
const BLOCK_CHARS = 8_000;

// Controls, characters that take no room, and those that change the direction of what is around them: with
// them a text can look like another one. Line break and tab are seen for what they are.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

/** The text with whatever cannot be seen as an escape. */
export function visible(text) {
  return String(text).replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'path', 'rect', 'line', 'polyline', 'polygon', 'circle', 'g', 'title-svg']);

/**
 * An element. A function among the attributes is a listener of the event (`onclick`), `class` and `dataset` are
 * what they are called, `style` is an object of properties; `false`, `null` and `undefined` leave an attribute
 * out, `true` sets it empty. Children are nodes, texts, numbers, or arrays of these; empty ones are left out.
 */
export function h(tag, attributes, ...children) {
  const element = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag.replace('-svg', ''))
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

/** Foreign text in a `pre`, cut where it is long, with a button for what follows, a stretch at a time. */
export function text(foreign, { max = TEXT_CHARS_MAX, label = 'text' } = {}) {
  const whole = String(foreign ?? '');
  const pre = h('pre', { class: 'text', tabindex: '0', role: 'group', 'aria-label': label }, whole.slice(0, max));
  if (whole.length <= max) return pre;
  let shown = max;
  const button = h('button', { type: 'button', class: 'quiet', onclick: more });
  const note = h('span', { class: 'dim' });
  function tell() {
    const left = Math.min(whole.length, ALL_CHARS_MAX) - shown;
    button.hidden = left <= 0;
    fill(button, `Show ${Math.min(left, MORE_CHARS).toLocaleString('en')} more characters`);
    fill(note, `${shown.toLocaleString('en')} of ${whole.length.toLocaleString('en')} characters are shown`);
  }
  function more() {
    const until = Math.min(whole.length, ALL_CHARS_MAX, shown + MORE_CHARS);
    while (shown < until) {
      // One block is laid out at a time, and only where it is in sight. It ends with a line, where there is an end.
      let end = Math.min(until, shown + BLOCK_CHARS);
      const broken = end < whole.length ? whole.lastIndexOf('\n', end - 1) : -1;
      if (broken > shown) end = broken + 1;
      pre.append(h('span', { class: 'block' }, whole.slice(shown, end).replace(/\n$/, '')));
      shown = end;
    }
    tell();
    if (button.hidden) pre.focus();
  }
  tell();
  return h('div', { class: 'cut' }, pre, button, note);
}

/** Foreign text in one line, cut without a way to the rest: for rows that lead to a place that shows it. */
export function line(foreign, max = 200) {
  const flat = String(foreign ?? '').slice(0, max + 1).replace(/\s+/g, ' ');
  return flat.length > max ? `${flat.slice(0, max)}…` : flat;
}
