// A list of any length of which only the rows in sight are elements.

import { fill, h } from './dom.js';

/** Rows above and below those in sight. */
const MARGIN_ROWS = 8;
/** Pixels that an element may be high: browsers place nothing right beyond some millions. */
const SPACE_PX_MAX = 8_000_000;

/**
 * `make(item, index)` gives the attributes and children of a row, as `{ attributes, children }`; `key(item)` what it
 * is known by. `open(item)` is called for Enter or a click, `fold(item, is_open)` for the arrow keys; `end()` when
 * the last rows come in sight. When the items change, `hold` says what stays in sight: `row` the one that is uppermost,
 * unless that is the first, and `end` the last one, if it is in sight. `press(event)` of what it returns is for keys that are
 * pressed elsewhere; `reveal(key)` selects a row and scrolls to it.
 */
export function createRows({ label, rowPx, make, key, open, fold, end, role = 'listbox', hold = null }) {
  const space = h('div', { class: 'space', role: 'presentation' });
  const isTree = role === 'tree' || role === 'treegrid';
  const element = h('div', { class: 'rows', role, tabindex: '0', 'aria-label': label, onscroll: soon, onkeydown: pressed }, space);
  let items = [];
  let selected = null;
  let at = -1;
  let frame = 0;
  let elements = new Map();

  function soon() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    const height = element.clientHeight;
    const first = Math.max(0, Math.floor(element.scrollTop / rowPx) - MARGIN_ROWS);
    const last = Math.min(items.length, Math.ceil((element.scrollTop + height) / rowPx) + MARGIN_ROWS);
    space.style.height = `${Math.min(items.length * rowPx, SPACE_PX_MAX)}px`;
    const next = new Map();
    for (let index = first; index < last; index += 1) {
      const item = items[index];
      const name = key(item);
      const { attributes, children, version } = make(item, index);
      let row = elements.get(name);
      if (!row || row.version !== version || version === undefined || row.index !== index) {
        const node = h('div', {
          role: isTree ? 'treeitem' : 'option',
          ...attributes,
          class: `row ${attributes?.class ?? ''}`,
          id: `row-${label.replace(/\W/g, '')}-${name}`,
          'aria-posinset': index + 1,
          'aria-setsize': items.length,
          onclick: (event) => {
            if (event.target.closest('button, a')) return;
            choose(index);
            open?.(item, event);
          },
        }, children);
        node.style.top = `${index * rowPx}px`;
        node.style.height = `${rowPx}px`;
        row = { node, version, index };
      }
      row.node.setAttribute('aria-selected', String(name === selected));
      next.set(name, row);
    }
    const wanted = [...next.values()].map((row) => row.node);
    for (const node of [...space.children]) if (!wanted.includes(node)) node.remove();
    wanted.forEach((node, place) => { if (space.children[place] !== node) space.insertBefore(node, space.children[place] ?? null); });
    elements = next;
    const active = elements.get(selected);
    if (active) element.setAttribute('aria-activedescendant', active.node.id);
    else element.removeAttribute('aria-activedescendant');
    if (items.length && last >= items.length - MARGIN_ROWS) end?.();
  }

  function choose(index) {
    if (index < 0 || index >= items.length) return;
    at = index;
    selected = key(items[index]);
    const top = index * rowPx;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowPx > element.scrollTop + element.clientHeight) element.scrollTop = top + rowPx - element.clientHeight;
    soon();
  }

  function pressed(event) {
    if (event.target.closest?.('button, a, input, select, textarea, dialog')) return;
    press(event);
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(element.clientHeight / rowPx) - 1);
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) choose(Math.min(items.length - 1, Math.max(0, at + steps[event.key])));
    else if (event.key === 'Home') choose(0);
    else if (event.key === 'End') choose(items.length - 1);
    else if (event.key === 'Enter' && items[at]) open?.(items[at], event);
    else if (event.key === 'ArrowRight' && items[at]) fold?.(items[at], true);
    else if (event.key === 'ArrowLeft' && items[at]) fold?.(items[at], false);
    else return;
    event.preventDefault();
  }

  const resized = new ResizeObserver(soon);
  resized.observe(element);

  return {
    element,
    get selected() { return selected; },
    press,
    set(next) {
      const place = Math.floor(element.scrollTop / rowPx);
      const upper = hold === 'row' && place > 0 && items[place] ? key(items[place]) : null;
      const isAtEnd = hold === 'end' && items.length * rowPx > element.clientHeight
        && element.scrollTop + element.clientHeight >= items.length * rowPx - rowPx;
      const offset = element.scrollTop - place * rowPx;
      items = next;
      space.style.height = `${Math.min(items.length * rowPx, SPACE_PX_MAX)}px`;
      if (upper !== null) {
        const now = items.findIndex((item) => key(item) === upper);
        if (now >= 0 && now !== place) element.scrollTop = now * rowPx + offset;
      } else if (isAtEnd) element.scrollTop = items.length * rowPx;
      at = selected === null ? -1 : items.findIndex((item) => key(item) === selected);
      soon();
    },
    /** Makes those rows in sight anew whose `version` changed. */
    redraw: soon,
    select(name) {
      selected = name;
      at = items.findIndex((item) => key(item) === name);
      soon();
    },
    reveal(name) {
      choose(items.findIndex((item) => key(item) === name));
    },
    clear() {
      resized.disconnect();
      cancelAnimationFrame(frame);
      fill(space);
    },
  };
}
