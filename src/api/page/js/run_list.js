// The runs that were read, newest first and page by page, and what they have recorded since.

import { ASKED, fits, isStatus } from './run_filters.js';

/** Runs of one page. */
const PAGE_RUNS = 500;
/** Runs that are kept. Protects the memory of the page. */
export const RUNS_MAX = 200_000;
/** Pages that one search looks through before it asks whether to go on. Protects the daemon. */
const SEARCH_PAGES_MAX = 20;
/** Pages that are read again at once, when what was listed may have changed unheard. Protects the daemon. */
const AGAIN_PAGES_MAX = 20;
/** Milliseconds before a page that could not be read is asked for again; doubled each time up to the second. Protects the daemon. */
const RETRY_MS = 2_000;
const RETRY_MS_MAX = 60_000;
/** Milliseconds in which runs that are not known are looked up together. Protects the daemon. */
const LOOK_UP_MS = 500;
/** Runs that are looked up one by one; for more the list is read anew. Protects the daemon. */
const LOOK_UP_MAX = 20;

/** The order of the daemon. */
export function newestFirst(one, other) {
  const a = one.started_at ?? '';
  const b = other.started_at ?? '';
  if (a !== b) return a < b ? 1 : -1;
  return one.run_id < other.run_id ? 1 : -1;
}

/** `changed()` is called when there is something else to show. */
export class RunList {
  runs = new Map();
  isLoading = false;
  /** Why the next page could not be read. */
  error = null;
  /** How many pages were read. */
  pages = 0;
  #pagesWanted = 1;
  #stale = new Set();
  #readAt = 0;
  #app;
  #changed;
  #filters = null;
  #generation = 0;
  #cursor = null;
  #oldest = null;
  #searchPagesLeft = SEARCH_PAGES_MAX;
  #retrying = null;
  #retryMs = RETRY_MS;
  #events = 0;
  #heardAt = new Map();
  #unknown = new Set();
  #lookingUp = null;
  #unsubscribe;

  constructor(app, changed) {
    this.#app = app;
    this.#changed = changed;
    this.#unsubscribe = app.hub.subscribe({
      on: (type, event) => this.#heard(type, event),
      missed: () => this.#readAgain(),
    });
  }

  get isMore() { return this.#cursor !== null && !this.isFull; }

  get isFull() { return this.#cursor !== null && this.runs.size >= RUNS_MAX; }

  /** Whether a search waits to be told to go on. */
  get isSearchPaused() { return this.isMore && Boolean(this.#filters.q) && this.#searchPagesLeft === 0; }

  /** Lists what fits: so many pages of it at first. */
  show(filters, pages = 1) {
    const before = this.#filters;
    this.#filters = filters;
    this.#searchPagesLeft = SEARCH_PAGES_MAX;
    if (before && ASKED.every((name) => before[name] === filters[name])) {
      this.#changed();
      return;
    }
    this.runs.clear();
    this.#read(pages);
  }

  /** Reads from the newest run on. What was listed stands until it was read again. */
  #read(pages) {
    if (!this.#filters) return;
    this.#generation += 1;
    this.#pagesWanted = Math.min(Math.max(pages, 1), AGAIN_PAGES_MAX);
    this.#stale = new Set(this.runs.keys());
    this.#readAt = this.#events;
    clearTimeout(this.#retrying);
    this.error = null;
    this.isLoading = false;
    this.#cursor = null;
    this.#oldest = null;
    this.pages = 0;
    this.#unknown.clear();
    this.#searchPagesLeft = SEARCH_PAGES_MAX;
    if (isStatus(this.#filters.status)) this.#load();
    else this.#changed();
  }

  /** Reads the next page, unless there is a reason to wait. */
  more() {
    if (this.isLoading || this.error || !this.isMore || this.isSearchPaused) return;
    this.#load();
  }

  /** Goes on with a search through older runs. */
  searchOn() {
    this.#searchPagesLeft = SEARCH_PAGES_MAX;
    this.more();
  }

  /** Tries again what failed. */
  retry() {
    if (this.isLoading) return;
    clearTimeout(this.#retrying);
    this.#load();
  }

  async #load() {
    const generation = this.#generation;
    const cursor = this.#cursor;
    const asked = this.#events;
    this.isLoading = true;
    if (this.#filters.q) this.#searchPagesLeft = Math.max(0, this.#searchPagesLeft - 1);
    this.#changed();
    try {
      const page = await this.#app.api.get(`/api/agent/runs?${this.#query(cursor)}`);
      if (generation !== this.#generation) return;
      for (const run of page.runs) {
        this.#take(run, asked);
        this.#stale.delete(run.run_id);
      }
      this.#cursor = page.next_cursor ?? null;
      this.#oldest = page.runs.at(-1) ?? this.#oldest;
      this.pages += 1;
      this.error = null;
      this.#retryMs = RETRY_MS;
      if (!this.#isReadingAgain) this.#forgetStale();
    } catch (error) {
      if (generation === this.#generation) this.#failed(error);
    } finally {
      if (generation === this.#generation) {
        this.isLoading = false;
        if (this.#isReadingAgain) this.more();
        this.#changed();
      }
    }
  }

  get #isReadingAgain() { return this.pages < this.#pagesWanted && this.isMore; }

  /** Drops what was listed before and is listed no more. */
  #forgetStale() {
    for (const id of this.#stale) if (!this.#isNewer(id, this.#readAt)) this.runs.delete(id);
    this.#stale.clear();
    this.#heardAt.clear();
  }

  #query(cursor) {
    const query = new URLSearchParams({ limit: String(PAGE_RUNS) });
    for (const name of ASKED) if (this.#filters[name]) query.set(name, this.#filters[name]);
    if (cursor) query.set('cursor', cursor);
    return query;
  }

  #failed(error) {
    this.error = error;
    // With a token the view is made anew.
    if (error.status === 401) return;
    this.#retrying = setTimeout(() => this.retry(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
  }

  /** Whether a run has recorded something since so many events were heard. */
  #isNewer(id, asked) {
    return (this.#heardAt.get(id) ?? 0) > asked;
  }

  /** Takes a run as the daemon answered, unless what was heard meanwhile is newer. */
  #take(run, asked) {
    if (!this.#isNewer(run.run_id, asked)) this.runs.set(run.run_id, run);
  }

  #put(run) {
    if (this.runs.size >= RUNS_MAX && !this.runs.has(run.run_id)) {
      this.#read(1);
      return;
    }
    this.#events += 1;
    this.#heardAt.set(run.run_id, this.#events);
    if (fits(run, this.#filters)) this.runs.set(run.run_id, run);
    else this.runs.delete(run.run_id);
    this.#changed();
  }

  #heard(type, { run_id: id, time, payload = {} }) {
    if (!this.#filters) return;
    const known = this.runs.get(id);
    if (type === 'run_started') {
      if (known) return;
      this.#put({
        run_id: id, status: 'running', code: null, skill: payload.skill, flavor: payload.flavor, parent_run_id: payload.parent_run_id ?? null,
        started_at: time, ended_at: null, error: null, cost_usd: null, corruption: null,
      });
    } else if (type === 'run_completed' || type === 'run_resumed') {
      if (!known) this.#lookUp(id);
      else if (type === 'run_resumed') this.#put({ ...known, status: 'running', code: null, ended_at: null, error: null });
      else {
        const { status, code = null, error, cost_usd: costUsd = null } = payload;
        this.#put({ ...known, status, code, ended_at: time, error: typeof error === 'string' ? error : null, cost_usd: costUsd });
      }
    }
  }

  /** Reads as much as was read, or is being read. */
  #readAgain() {
    this.#read(Math.max(this.pages, this.#pagesWanted));
  }

  /** Asks for a run of which an event tells too little. */
  #lookUp(id) {
    this.#unknown.add(id);
    this.#lookingUp ??= setTimeout(() => {
      this.#lookingUp = null;
      const ids = [...this.#unknown];
      this.#unknown.clear();
      if (ids.length > LOOK_UP_MAX) this.#readAgain();
      else for (const one of ids) this.#lookUpNow(one);
    }, LOOK_UP_MS);
  }

  async #lookUpNow(id) {
    const generation = this.#generation;
    const asked = this.#events;
    try {
      const { run } = await this.#app.api.get(`/api/agent/runs/${encodeURIComponent(id)}?limit=1`);
      if (generation !== this.#generation) return;
      // What is older than all that was read comes with the page that it stands on.
      const isInPlace = this.#cursor === null || this.#oldest !== null && newestFirst(run, this.#oldest) < 0;
      if (isInPlace && fits(run, this.#filters)) this.#take(run, asked);
      this.#changed();
    } catch {
      // It may be gone; the list as it is read next says so.
    }
  }

  close() {
    this.#generation += 1;
    this.#filters = null;
    clearTimeout(this.#retrying);
    clearTimeout(this.#lookingUp);
    this.#unsubscribe();
  }
}
