// The waterfall of a run: a row for each step, call and moment, with a bar where and for how long it was.

import { fill, h, line as oneLine } from './dom.js';
import * as format from './format.js';
import { createRows } from './rows.js';
import { EVENTS_MAX, rowsOf, scaleOf, waitsOf } from './timeline.js';

const ROW_PX = 30;
const NAME_INDENT_PX = 14;
const INDENT_MAX = 14;
/** Characters of a name that a row shows. */
const NAME_CHARS_MAX = 120;
/** Pixels of the shortest bar. */
const BAR_PX_MIN = 3;
/** Waits that are marked in one bar. Protects the page. */
const MARKS_MAX = 500;
const MARKS_OF_SCALE = [0, 0.25, 0.5, 0.75, 1];
const SYMBOLS = { run: '▶', node: '◇', tool: '⚒', tools: '⚒', skill: '▶', model: '✦', http: '⇄', approval: '?', timer: '◔', log: '·', error: '!', denied: '⊘', turn: '❯' };
const LEGEND = [['▶', 'run or skill'], ['◇', 'step'], ['⚒', 'tool'], ['✦', 'model'], ['⇄', 'request'], ['?', 'question'], ['◔', 'timer'], ['❯', 'turn'], ['⊘', 'denied'], ['!', 'error'], ['·', 'log or note']];
/** How a span is called that did not end as it should, and not because it failed. */
const VERDICTS = new Set(['cancelled', 'interrupted', 'rejected', 'undone']);

export class Waterfall {
  #line = null;
  #childOf = () => null;
  #isOver = false;
  #now = 0;
  #folded = new Set();
  #hasPoints = true;
  #hasShortWaits = false;
  #zoom = null;
  #waits = [];
  #placeAt = () => 0;

  /** `open(item)` is called with what a person chose, `unfolded(run_id)` with a run that is to be shown inline, `changed()` when all has to be drawn again. */
  constructor({ open, unfolded, changed }) {
    this.unfolded = unfolded;
    this.changed = changed;
    this.rows = createRows({
      label: 'What happened', rowPx: ROW_PX, role: 'tree', hold: 'end', key: (item) => item.key, make: (item) => this.#row(item),
      open, fold: (item, isOpen) => this.#fold(item, isOpen),
    });
    this.scale = h('div', { class: 'scale', 'aria-hidden': 'true' });
    this.sums = h('p', { class: 'dim sums' });
    this.points = this.#check('Log and notes', true, (isOn) => { this.#hasPoints = isOn; });
    this.whole = h('button', { type: 'button', hidden: true, onclick: () => this.zoom(null) }, 'Whole run');
    this.element = h('section', { class: 'card waterfall', 'aria-label': 'Waterfall' },
      h('div', { class: 'head' }, h('h2', null, 'What happened'), h('div', { class: 'actions' }, this.whole,
        this.#check('Shorten waits', false, (isOn) => { this.#hasShortWaits = isOn; }), this.points)),
      this.sums, this.scale, this.rows.element,
      h('details', { class: 'legend-of-rows' }, h('summary', null, 'Legend'), h('ul', null,
        LEGEND.map(([symbol, name]) => h('li', null, h('span', { class: 'symbol', 'aria-hidden': 'true' }, symbol), name)),
        h('li', null, h('span', { class: 'bar-sample', 'aria-hidden': 'true' }), 'waited'))));
  }

  #check(label, isOn, turn) {
    return h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: isOn, onchange: (event) => { turn(event.target.checked); this.changed(); } }), label);
  }

  /** Draws a run anew, as it is at `now`, in microseconds. */
  show({ line, childOf, isOver, now }) {
    this.#line = line;
    this.#childOf = childOf;
    this.#isOver = isOver;
    this.move(now);
    this.rows.set(rowsOf(line, { folded: this.#folded, childOf, wanted: (span) => this.#hasPoints || !span.isPoint }));
  }

  /** Draws what goes on as it is at `now`. */
  move(now) {
    this.#now = now;
    const { from, to } = this.#span();
    const seen = this.#zoom ?? { from, to };
    this.#waits = waitsOf(this.#line, to, this.#childOf);
    this.#placeAt = scaleOf(seen.from, seen.to, this.#hasShortWaits ? this.#waits : []);
    this.whole.hidden = this.#zoom === null;
    this.#sum(from, to);
    this.scale.classList.toggle('short', this.#hasShortWaits);
    fill(this.scale, h('span', { class: 'name' }), h('span', { class: 'marks' },
      MARKS_OF_SCALE.map((part) => h('span', null, format.duration(seen.from - from + (seen.to - seen.from) * part)))), h('span', { class: 'took' }));
    this.rows.redraw();
  }

  /** Shows the time of one span alone; `null`: all of the run. */
  zoom(span) {
    this.#zoom = span === null ? null : { from: span.start, to: Math.max(span.start + 1, span.end ?? this.#now) };
    this.changed();
  }

  select(key) {
    this.rows.select(key);
  }

  /** Chooses the row of an event, wherever it is folded away; gives it, or `null`. */
  reveal(seq) {
    const items = rowsOf(this.#line, { folded: new Set(), childOf: () => null, wanted: () => true });
    const item = items.findLast(({ span }) => span.call?.seq === seq || span.result?.seq === seq) ?? null;
    if (item === null) return null;
    if (item.span.isPoint) {
      this.#hasPoints = true;
      this.points.querySelector('input').checked = true;
    }
    this.#folded.clear();
    this.show({ line: this.#line, childOf: this.#childOf, isOver: this.#isOver, now: this.#now });
    this.rows.reveal(item.key);
    return item;
  }

  clear() {
    this.rows.clear();
  }

  /** From when to when the run is; one that waits for people goes on. */
  #span() {
    const line = this.#line;
    const from = line.first ?? this.#now;
    const isStill = this.#isOver || line.completed && line.completed.payload.status !== 'suspended';
    const to = isStill ? line.last ?? this.#now : Math.max(this.#now, line.last ?? this.#now);
    return { from, to: Math.max(to, from + 1) };
  }

  #sum(from, to) {
    const line = this.#line;
    const waited = this.#waits.reduce((total, wait) => total + Math.max(0, Math.min(to, wait.end) - wait.start), 0);
    fill(this.sums, `${format.duration(to - from)} in all, `, h('strong', null, format.duration(Math.max(0, to - from - waited))), ' worked',
      waited > 0 ? [', ', h('span', { class: 'warn' }, `${format.duration(waited)} waited`)] : null,
      line.cost === null ? null : `, ${format.cost(line.cost)}`,
      ` · ${format.count(line.events)} events`,
      line.damaged ? h('span', { class: 'bad' }, `, ${format.count(line.damaged)} damaged lines`) : null,
      line.isFull ? ` · only the first ${format.count(EVENTS_MAX)} are shown` : null);
  }

  #fold(item, isOpen) {
    if (isOpen) {
      this.#folded.delete(item.key);
      if (item.span.childRunId) this.unfolded(item.span.childRunId);
    } else this.#folded.add(item.key);
    this.changed();
  }

  /** What is known of a span's end, in one word for its look and some for whoever hears it. */
  #stateOf(span, line) {
    const isLineOver = line === this.#line ? this.#isOver : Boolean(line.completed);
    // What waits for people goes on, though nobody works on it.
    if (span.verdict === 'suspended') return { look: 'stopped going', words: 'suspended' };
    if (span.verdict !== null && VERDICTS.has(span.verdict)) return { look: 'stopped', words: span.verdict };
    if (span.isFailed) return { look: 'failed', words: 'failed' };
    if (span.end !== null) return { look: 'done', words: 'done' };
    return isLineOver ? { look: 'done cut-off', words: 'without an end' } : { look: 'going', words: 'going on' };
  }

  #row(item) {
    const { span, depth, line, canOpen, isOpen, children: count } = item;
    const state = this.#stateOf(span, line);
    const start = span.start ?? line.first ?? this.#now;
    const end = state.look.endsWith('going') ? this.#now : span.end ?? line.last;
    const left = this.#placeAt(start);
    const right = this.#placeAt(end);
    const took = span.isPoint ? '' : format.duration(span.durationMicros ?? Math.max(0, end - start));
    const isThere = right >= 0 && left <= 100;
    const place = Math.min(100, Math.max(0, left));
    const width = Math.min(100, Math.max(0, right)) - place;
    const marks = span === this.#line.root ? this.#waits.slice(0, MARKS_MAX).map((wait) => [this.#placeAt(wait.start), this.#placeAt(wait.end), wait.why]) : [];
    return {
      version: [item.key, state.look, took, isOpen, count, isThere, place.toFixed(3), width.toFixed(3), span.pieces, span.again, marks].join(),
      attributes: { class: span.kind, 'aria-level': depth + 1, 'aria-expanded': canOpen ? String(isOpen) : null },
      children: [
        this.#name(item),
        // Symbol and colour say it to whoever sees them.
        h('span', { class: 'unseen' }, `, ${format.words(span.kind)}, ${state.words}`),
        h('span', { class: 'lane' }, isThere ? bar(span, place, width, state.look) : null, marks.map(mark)),
        h('span', { class: 'took right' }, took)],
    };
  }

  #name(item) {
    const { span, depth, canOpen, isOpen, children: count } = item;
    const fold = () => this.#fold(item, !isOpen);
    const name = h('span', { class: `name ${span.isPoint ? 'point' : ''} ${span.isFailed ? 'bad' : ''}` },
      canOpen
        ? h('button', { type: 'button', class: 'fold', tabindex: '-1', 'aria-label': isOpen ? 'Fold' : 'Unfold', onclick: fold }, isOpen ? '▾' : '▸')
        : h('span', { class: 'none' }),
      h('span', { class: 'symbol', 'aria-hidden': 'true', title: format.words(span.kind) }, SYMBOLS[span.kind] ?? '·'),
      h('span', null, oneLine(span.label || span.kind, NAME_CHARS_MAX)),
      count && !isOpen ? h('span', { class: 'dim' }, `+${count}`) : null);
    name.style.paddingLeft = `${Math.min(depth, INDENT_MAX) * NAME_INDENT_PX}px`;
    return name;
  }
}

function bar(span, place, width, look) {
  const made = h('span', { class: `bar ${span.kind} ${look} ${span.isPoint ? 'point' : ''}` });
  // Whatever is at the very end is still seen.
  made.style.left = `min(${place}%, calc(100% - ${BAR_PX_MIN}px))`;
  made.style.width = `${width}%`;
  return made;
}

/** A wait, in the bar of the run. */
function mark([left, right, why]) {
  if (right < 0 || left > 100) return null;
  const made = h('span', { class: 'bar waited', title: `waited: ${why}` });
  const begin = Math.min(100, Math.max(0, left));
  made.style.left = `${begin}%`;
  made.style.width = `${Math.max(0, Math.min(100, right) - begin)}%`;
  return made;
}
