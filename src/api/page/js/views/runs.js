// The list of runs: live, filtered by the address, with the runs that runs asked for below them.

import { now } from '../clock.js';
import { fill, h, line } from '../dom.js';
import * as format from '../format.js';
import { createRows } from '../rows.js';
import { createRunFilters, filtersOf, isFound, isStatus } from '../run_filters.js';
import { newestFirst, RunList, RUNS_MAX } from '../run_list.js';

/** Rows that a search wants to have found before it waits for somebody to scroll. */
const SEARCH_ROWS_MIN = 40;
/** How deep children are indented. */
const DEPTH_MAX = 12;
const INDENT_PX = 18;
const ROW_PX = 38;
/** Milliseconds in which changes are shown together. */
const DRAW_MS = 100;
/** Milliseconds after which the time of what goes on is shown anew. */
const TICK_MS = 1_000;
/** Characters of why a run ended so, in a row and beside it. */
const WHY_CHARS_MAX = 120;
const WHY_TITLE_CHARS_MAX = 300;

/** Where somebody left the list for a run, to come back to it. */
let left = null;

/** Runs as rows: newest first, children below whoever asked for them. */
function treeOf(runs, closed) {
  const there = new Set(runs.map((run) => run.run_id));
  const below = new Map();
  const tops = [];
  for (const run of runs) {
    if (run.parent_run_id && there.has(run.parent_run_id) && run.parent_run_id !== run.run_id) {
      if (!below.has(run.parent_run_id)) below.set(run.parent_run_id, []);
      below.get(run.parent_run_id).push(run);
    } else tops.push(run);
  }
  tops.sort(newestFirst);
  const items = [];
  const stack = tops.reverse().map((run) => ({ run, depth: 0 }));
  while (stack.length) {
    const { run, depth } = stack.pop();
    const children = below.get(run.run_id);
    const isOpen = !closed.has(run.run_id);
    items.push({ run, depth, children: children?.length ?? 0, isOpen });
    if (children && isOpen) {
      children.sort(newestFirst);
      for (const child of children) stack.push({ run: child, depth: depth + 1 });
    }
  }
  return items;
}

function elapsed(run) {
  const from = format.micros(run.started_at);
  if (from === null) return format.duration(null);
  const to = format.micros(run.ended_at) ?? (run.status === 'running' ? now() * 1_000 : null);
  return format.duration(to === null ? null : Math.max(0, to - from));
}

function nameOf({ run, depth, children, isOpen }, toggle) {
  const fold = children
    ? h('button', { type: 'button', class: 'fold', tabindex: '-1', 'aria-label': isOpen ? 'Fold children' : 'Show children', onclick: () => toggle(run.run_id) }, isOpen ? '▾' : '▸')
    : h('span', { class: 'none' });
  const name = h('span', { class: 'name' }, fold, h('span', null, run.skill ?? 'unknown skill'),
    children ? h('span', { class: 'dim' }, `${children}`) : null,
    depth === 0 && run.parent_run_id ? h('span', { class: 'dim', title: run.parent_run_id }, `↳ of ${format.short(run.parent_run_id)}`) : null,
    h('span', { class: 'dim mono id' }, format.short(run.run_id)));
  name.style.paddingLeft = `${Math.min(depth, DEPTH_MAX) * INDENT_PX}px`;
  return name;
}

/** The row of a run, whose question waits if `isWaiting`; `toggle(id)` folds and unfolds what is below it. */
function rowOf(item, isWaiting, toggle) {
  const { run, depth, children, isOpen } = item;
  // One that was interrupted waits for nobody before it is resumed.
  const status = isWaiting && ['running', 'suspended'].includes(run.status) ? 'waiting' : run.status;
  const took = elapsed(run);
  const began = format.ago(run.started_at);
  const cost = typeof run.cost_usd === 'number' ? format.cost(run.cost_usd) : '';
  const why = run.corruption ?? run.error ?? (run.code && run.code !== run.status && run.status !== 'suspended' ? format.words(run.code) : '');
  return {
    version: [status, depth, children, isOpen, why, took, cost, began].join(),
    attributes: { 'aria-level': depth + 1, 'aria-expanded': children ? String(isOpen) : null },
    children: [nameOf(item, toggle),
      // Where there is no room for a column of its own, the start stands below the status.
      h('span', { class: 'status' }, h('span', { class: `chip ${status}` }, status), h('span', { class: 'began dim' }, began)),
      h('span', { class: `why ${run.status === 'error' ? 'bad' : 'dim'}`, title: line(why, WHY_TITLE_CHARS_MAX) }, line(why, WHY_CHARS_MAX)),
      h('span', { class: 'took right' }, took),
      h('span', { class: 'cost right' }, cost),
      h('span', { class: 'at dim', title: format.time(run.started_at) }, began)],
  };
}

/** The line below the list. What it has is changed and never made anew, so that nothing loses the focus. */
function createFoot(list) {
  const words = h('span');
  const failure = h('span', { class: 'bad', role: 'alert' });
  const again = h('button', { type: 'button', onclick: () => list.retry() }, 'Try again');
  const older = h('button', { type: 'button', onclick: () => list.searchOn() }, 'Search older runs');
  const help = h('span', null, 'j and k move, Enter opens, / searches');
  const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  return {
    element: h('div', { class: 'foot dim' }, words, failure, again, older, help),
    /** Shows how many rows there are, under these filters; gives what it says of that. */
    draw(rows, filters) {
      const found = rows === 1 ? '1 run' : `${format.count(rows)} runs`;
      const among = filters.q ? ` among ${format.count(list.runs.size)}` : '';
      const next = list.isLoading ? ', reading …' : list.isFull ? `, no more than ${format.count(RUNS_MAX)} are shown`
        : list.isMore && !list.error ? ', more when you scroll' : '';
      const said = rows > 0 ? `${found}${among}` : emptyWords(list, filters);
      words.className = rows > 0 ? '' : 'empty';
      set(words, rows > 0 ? `${said}${next}` : said);
      const unread = rows > 0 ? 'Older runs' : 'The runs';
      set(failure, list.error ? `${unread} cannot be read: ${line(list.error.message, WHY_TITLE_CHARS_MAX)}.` : '');
      for (const [button, isThere] of [[again, list.error && list.error.status !== 401], [older, list.isSearchPaused]]) {
        // What is hidden has no focus; the list has it then.
        if (!isThere && button === document.activeElement) button.closest('main').querySelector('[role=tree], #f-q').focus();
        button.hidden = !isThere;
      }
      help.hidden = rows === 0;
      return said;
    },
  };
}

function emptyWords(list, filters) {
  if (!isStatus(filters.status)) return `There is no status “${line(filters.status, WHY_CHARS_MAX)}”.${filters.status === 'waiting' ? ' What waits is under Approvals.' : ''}`;
  if (list.error) return '';
  if (list.isLoading) return 'Reading …';
  if (list.isMore) return `No run found among ${format.count(list.runs.size)}.`;
  return Object.values(filters).some(Boolean) ? 'No run fits these filters.' : 'No runs yet. Start one under Skills.';
}

class RunsView {
  #app;
  #filters;
  #list;
  #rows;
  #fields;
  #head;
  #foot;
  #closed = new Set();
  #waiting = new Set();
  #drawing = null;
  #isNews = false;
  #back = null;
  #ends = [];

  constructor(root, params, app) {
    this.#app = app;
    this.#filters = filtersOf(params.query);
    this.#list = new RunList(app, () => this.#soon());
    this.#rows = createRows({
      label: 'Runs', rowPx: ROW_PX, hold: 'row',
      key: (item) => item.run.run_id,
      make: (item) => rowOf(item, this.#waiting.has(item.run.run_id), (id) => this.#fold(id, this.#closed.has(id))),
      open: ({ run }) => this.#open(run.run_id),
      fold: ({ run, children }, isOpen) => { if (children) this.#fold(run.run_id, isOpen); },
      end: () => this.#list.more(),
    });
    this.#fields = createRunFilters(app);
    this.#foot = createFoot(this.#list);
    this.#head = h('div', { class: 'runs-head row-head', 'aria-hidden': 'true' }, h('span', { class: 'name' }, 'Skill'), h('span', { class: 'status' }, 'Status'),
      h('span', { class: 'why' }, 'Outcome'), h('span', { class: 'took' }, 'Duration'), h('span', { class: 'cost' }, 'Cost'), h('span', { class: 'at' }, 'Started'));
    fill(root, h('div', { class: 'head' }, h('h1', null, 'Runs')), this.#fields.element, this.#head, this.#rows.element, this.#foot.element);
    this.#begin(params.cameFrom);
  }

  #begin(cameFrom) {
    const ticking = setInterval(() => { if (!document.hidden) this.#rows.redraw(); }, TICK_MS);
    const pressed = (event) => this.#pressed(event);
    document.addEventListener('keydown', pressed);
    this.#ends.push(() => clearInterval(ticking), () => document.removeEventListener('keydown', pressed),
      this.#app.pending.subscribe(({ approvals }) => {
        this.#waiting = new Set(approvals.map(({ run_id: id }) => id));
        this.#soon();
      }));
    if (left && cameFrom === `runs/${left.runId}`) this.#back = left;
    left = null;
    this.#fields.show(this.#filters);
    this.#list.show(this.#filters, this.#back?.pages);
  }

  #open(runId) {
    left = { runId, pages: this.#list.pages, hasFocus: this.#rows.element.contains(document.activeElement) };
    this.#app.go(`#/runs/${runId}`);
  }

  #fold(id, isOpen) {
    if (isOpen) this.#closed.delete(id);
    else this.#closed.add(id);
    this.#draw();
  }

  #soon() {
    this.#drawing ??= setTimeout(() => this.#draw(), DRAW_MS);
  }

  #draw() {
    clearTimeout(this.#drawing);
    this.#drawing = null;
    const items = treeOf([...this.#list.runs.values()].filter((run) => isFound(run, this.#filters)), this.#closed);
    // An empty box would push what says so out of sight.
    for (const element of [this.#head, this.#rows.element]) element.hidden = items.length === 0;
    this.#rows.set(items);
    const isLacking = Boolean(this.#filters.q) && items.length < SEARCH_ROWS_MIN;
    if (isLacking) this.#list.more();
    const said = this.#foot.draw(items.length, this.#filters);
    if (this.#isNews && !this.#list.isLoading) {
      this.#isNews = false;
      this.#app.say(said);
    }
    if (this.#back) this.#comeBack(this.#back);
  }

  #comeBack({ runId, hasFocus }) {
    const isThere = this.#rows.reveal(runId);
    // A run that is read later, as somebody scrolls, is not jumped to.
    if (isThere || !this.#list.isLoading) this.#back = null;
    const isFree = [document.body, document.getElementById('main')].includes(document.activeElement);
    if (isThere && hasFocus && isFree) this.#rows.element.focus({ preventScroll: true });
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, button, a, dialog')) return;
    if (event.key === '/') {
      event.preventDefault();
      this.#fields.search.focus();
    } else if (['j', 'k', 'Enter'].includes(event.key) && !this.#rows.element.contains(event.target)) {
      this.#rows.element.focus({ preventScroll: true });
      this.#rows.press(event);
    }
  }

  update(params) {
    this.#filters = filtersOf(params.query);
    this.#isNews = true;
    this.#back = null;
    this.#fields.show(this.#filters);
    this.#list.show(this.#filters);
  }

  close() {
    clearTimeout(this.#drawing);
    this.#list.close();
    this.#fields.close();
    for (const end of this.#ends) end();
    this.#rows.clear();
  }
}

export default {
  title: () => 'Runs',

  mount(root, params, app) {
    const view = new RunsView(root, params, app);
    const unmount = () => view.close();
    unmount.update = (next) => view.update(next);
    return unmount;
  },
};
