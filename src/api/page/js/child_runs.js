// The runs that a run asked for, as far as they are shown inside of it.

import { Timeline } from './timeline.js';

/** Milliseconds between two looks at one that goes on: a stream of its own for each would take the browser's connections. */
const LOOK_MS = 1_000;
/** The same of one that is suspended or interrupted. */
const PAUSED_LOOK_MS = 3_000;
/** The same after looks that failed; doubled each time up to it. Protects the daemon. */
const LOOK_MS_MAX = 30_000;
/** Runs that are shown at once. Protects the page and the daemon. */
const SHOWN_MAX = 50;
/** Runs that are read without being asked for. Protects the daemon likewise. */
const UNASKED_MAX = 10;
const PAGE_EVENTS = 1_000;
/** Ends after which nothing comes. */
const FINAL = new Set(['ok', 'error', 'cancelled']);

export class ChildRuns {
  #api;
  #changed;
  #fail;
  #children = new Map();
  #isClosed = false;

  /** `changed()` is called when more of one is known. */
  constructor({ api, fail, changed }) {
    this.#api = api;
    this.#fail = fail;
    this.#changed = changed;
  }

  /** The timeline of one that is shown; `null` of any other. */
  of(runId) {
    return this.#children.get(runId)?.line ?? null;
  }

  get size() { return this.#children.size; }

  has(runId) {
    return this.#children.has(runId);
  }

  /** Shows the first of those that a run has asked for. */
  showSome(calls) {
    for (const { childRunId } of calls) {
      if (this.#children.size >= UNASKED_MAX) return;
      this.#show(childRunId);
    }
  }

  /** Shows one that somebody asks for. */
  show(runId) {
    if (!this.#children.has(runId) && this.#children.size >= SHOWN_MAX) {
      this.#fail(new Error(`${SHOWN_MAX} runs inside this one are shown already; the details of the call have a link to this one`));
    } else this.#show(runId);
  }

  close() {
    this.#isClosed = true;
    for (const { timer } of this.#children.values()) clearTimeout(timer);
  }

  #show(runId) {
    if (this.#children.has(runId)) return;
    const child = { line: new Timeline(runId), timer: null, waitMs: LOOK_MS };
    this.#children.set(runId, child);
    this.#look(runId, child);
  }

  async #look(runId, child) {
    if (document.hidden) {
      child.timer = setTimeout(() => this.#look(runId, child), LOOK_MS);
      return;
    }
    try {
      await this.#read(runId, child);
      child.waitMs = LOOK_MS;
    } catch (error) {
      // Its ledger was removed.
      if (error.status === 404) return;
      child.waitMs = Math.min(child.waitMs * 2, LOOK_MS_MAX);
    }
    if (this.#isClosed) return;
    this.#changed();
    const status = child.line.completed?.payload.status;
    if (FINAL.has(status) || child.line.isFull) return;
    // Nobody works on one that is paused.
    if (status !== undefined) child.waitMs = Math.max(child.waitMs, PAUSED_LOOK_MS);
    child.timer = setTimeout(() => this.#look(runId, child), child.waitMs);
  }

  /** What is new on record, page by page. */
  async #read(runId, { line }) {
    for (let isMore = true; isMore && !this.#isClosed;) {
      const before = line.lastSeq;
      const page = await this.#api.get(`/api/agent/runs/${encodeURIComponent(runId)}?limit=${PAGE_EVENTS}&after=${before}`);
      for (const event of page.events) line.add(event);
      isMore = page.next_after !== undefined && line.lastSeq > before && !line.isFull;
    }
  }
}
