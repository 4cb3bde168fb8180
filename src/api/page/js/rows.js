// A tree of any length of which only the rows in sight are elements.

import { append, h } from './dom.js';

/** Rows above and below those in sight. */
const MARGIN_ROWS = 8;
/** Pixels that an element may be high: browsers place nothing right beyond some millions. */
const SPACE_PX_MAX = 8_000_000;
/** What is pressed by itself, also within a row. */
const PRESSED = 'button, a, input, select, textarea, dialog';

/**
 * `make(item)` gives the attributes and children of a row, as `{ attributes, children, version }`; those of one version
 * are alike. `key(item)` is what it is known by, and `item.depth` how many rows it is below. `open(item, event)` is called
 * for Enter or a click, `fold(item, isOpen)` for the arrow keys; `end()` when the last rows come in sight. When the items
 * change, `hold` says what stays in sight: `row` the one that is uppermost, unless that is the first, and `end` the last
 * one, if it is in sight.
 */
export function createRows(options) {
  return new Rows(options);
}

/** Of each item, which one it is of those below the same one, and how many these are. */
export function siblingsOf(items) {
  const places = new Array(items.length);
  const open = [];
  items.forEach(({ depth = 0 }, index) => {
    open.length = Math.min(open.length, depth + 1);
    // All of one family have the same count, which is known when all of them were seen.
    open[depth] ??= { count: 0 };
    open[depth].count += 1;
    places[index] = { place: open[depth].count, family: open[depth] };
  });
  return places;
}

class Rows {
  #options;
  #space = h('div', { class: 'space', role: 'presentation' });
  #items = [];
  #places = null;
  #rows = new Map();
  #selected = null;
  #at = -1;
  #frame = 0;
  #isHeld = false;
  #late = null;
  #resized = new ResizeObserver(() => this.redraw());

  constructor(options) {
    this.#options = options;
    this.element = h('div', {
      class: 'rows', role: 'tree', tabindex: '0', 'aria-label': options.label,
      onscroll: () => this.redraw(),
      onkeydown: (event) => { if (!event.target.closest?.(PRESSED)) this.press(event); },
    }, this.#space);
    this.#resized.observe(this.element);
    // What is pressed stays what and where it is until it is let go, so that the click reaches it. Scroll bars go on.
    this.#space.addEventListener('pointerdown', () => { this.#isHeld = true; });
    for (const type of ['pointerup', 'pointercancel']) window.addEventListener(type, this.#release);
  }

  #release = () => {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    if (this.#late) this.set(this.#late);
    else this.redraw();
  };

  /** Shows these items. */
  set(items) {
    if (this.#isHeld) {
      this.#late = items;
      return;
    }
    this.#late = null;
    const { hold, key, rowPx } = this.#options;
    const { element } = this;
    const before = this.#items;
    const place = Math.floor(element.scrollTop / rowPx);
    const upper = hold === 'row' && place > 0 && before[place] ? key(before[place]) : null;
    const isAtEnd = hold === 'end' && before.length * rowPx > element.clientHeight
      && element.scrollTop + element.clientHeight >= before.length * rowPx - rowPx;
    const offset = element.scrollTop - place * rowPx;
    this.#items = items;
    this.#places = null;
    this.#stretch();
    if (upper !== null) {
      const now = items.findIndex((item) => key(item) === upper);
      if (now >= 0 && now !== place) element.scrollTop = now * rowPx + offset;
    } else if (isAtEnd) element.scrollTop = items.length * rowPx;
    this.#at = this.#selected === null ? -1 : this.#indexOf(this.#selected);
    this.redraw();
  }

  #stretch() {
    const px = `${Math.min(this.#items.length * this.#options.rowPx, SPACE_PX_MAX)}px`;
    this.#space.style.height = px;
    // A list that is short takes no more room than it needs.
    this.element.style.setProperty('--rows-px', px);
  }

  #indexOf(name) {
    return this.#items.findIndex((item) => this.#options.key(item) === name);
  }

  /** Makes those rows in sight anew whose `version` changed. */
  redraw() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    if (this.#isHeld) return;
    const { rowPx, end } = this.#options;
    const { clientHeight, scrollTop } = this.element;
    const count = this.#items.length;
    const first = Math.max(0, Math.floor(scrollTop / rowPx) - MARGIN_ROWS);
    const last = Math.min(count, Math.ceil((scrollTop + clientHeight) / rowPx) + MARGIN_ROWS);
    this.#places ??= siblingsOf(this.#items);
    const next = new Map();
    for (let index = first; index < last; index += 1) {
      const name = this.#options.key(this.#items[index]);
      next.set(name, this.#painted(name, index));
    }
    for (const [name, { node }] of this.#rows) if (!next.has(name)) node.remove();
    let place = 0;
    for (const { node } of next.values()) {
      if (this.#space.children[place] !== node) this.#space.insertBefore(node, this.#space.children[place] ?? null);
      place += 1;
    }
    this.#rows = next;
    const active = next.get(this.#selected);
    if (active) this.element.setAttribute('aria-activedescendant', active.node.id);
    else this.element.removeAttribute('aria-activedescendant');
    if (count && last >= count - MARGIN_ROWS) end?.();
  }

  /** The row of an item, of which no more is changed than is different. */
  #painted(name, index) {
    const { label, make, rowPx } = this.#options;
    const row = this.#rows.get(name) ?? this.#row(`row-${label.replace(/\W/g, '')}-${name}`);
    row.item = this.#items[index];
    const { attributes, children, version } = make(row.item);
    const { place, family } = this.#places[index];
    const wanted = {
      ...attributes, class: `row ${attributes.class ?? ''}`, 'aria-selected': name === this.#selected, 'aria-posinset': place, 'aria-setsize': family.count,
    };
    for (const [attribute, value] of Object.entries(wanted)) {
      if (value === null || value === undefined) row.node.removeAttribute(attribute);
      else if (row.node.getAttribute(attribute) !== String(value)) row.node.setAttribute(attribute, value);
    }
    row.node.style.top = `${index * rowPx}px`;
    if (row.version !== version) {
      row.version = version;
      row.node.replaceChildren();
      append(row.node, children);
    }
    return row;
  }

  #row(id) {
    const row = { version: null, item: null };
    row.node = h('div', {
      role: 'treeitem', id,
      onclick: (event) => {
        if (event.target.closest('button, a')) return;
        this.#choose(this.#indexOf(this.#options.key(row.item)));
        this.#options.open?.(row.item, event);
      },
    });
    row.node.style.height = `${this.#options.rowPx}px`;
    return row;
  }

  #choose(index) {
    if (index < 0 || index >= this.#items.length) return;
    const { rowPx } = this.#options;
    const { element } = this;
    this.#at = index;
    this.#selected = this.#options.key(this.#items[index]);
    const top = index * rowPx;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowPx > element.scrollTop + element.clientHeight) element.scrollTop = top + rowPx - element.clientHeight;
    this.redraw();
  }

  /** Does what a key stands for, also one that was pressed elsewhere. */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { open, fold, rowPx } = this.#options;
    const item = this.#items[this.#at];
    const page = Math.max(1, Math.floor(this.element.clientHeight / rowPx) - 1);
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) this.#choose(Math.min(this.#items.length - 1, Math.max(0, this.#at + steps[event.key])));
    else if (event.key === 'Home') this.#choose(0);
    else if (event.key === 'End') this.#choose(this.#items.length - 1);
    else if (event.key === 'Enter' && item) open?.(item, event);
    else if (event.key === 'ArrowRight' && item) fold?.(item, true);
    else if (event.key === 'ArrowLeft' && item) fold?.(item, false);
    else return;
    event.preventDefault();
  }

  /** Selects a row. */
  select(name) {
    this.#selected = name;
    this.#at = this.#indexOf(name);
    this.redraw();
  }

  /** Selects a row and scrolls to it; whether there is one. */
  reveal(name) {
    const index = this.#indexOf(name);
    this.#choose(index);
    return index >= 0;
  }

  clear() {
    this.#resized.disconnect();
    for (const type of ['pointerup', 'pointercancel']) window.removeEventListener(type, this.#release);
    cancelAnimationFrame(this.#frame);
    this.#space.replaceChildren();
  }
}
