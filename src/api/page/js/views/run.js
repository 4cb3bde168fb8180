// One run: what happened when, and everything that is known of it.

import { createAnswers } from '../answers.js';
import { ChildRuns } from '../child_runs.js';
import { now } from '../clock.js';
import { createRecord } from '../record.js';
import { runActions } from '../run_actions.js';
import { outcomeCard, runCards, spanCard } from '../sides.js';
import { EVENT_TYPES, Timeline } from '../timeline.js';
import { copied } from '../value.js';
import { Waterfall } from '../waterfall.js';

/** Milliseconds between two pictures of a run that goes on. */
const DRAW_MS = 250;
/** Milliseconds between two looks at a run of which no further events are shown. */
const LOOK_MS = 5_000;
const MICROS_PER_MS = 1_000;
/** Ends after which nothing comes. */
const FINAL = new Set(['ok', 'error', 'cancelled']);
/** Keys that move in the waterfall, wherever the focus is. */
const KEYS = new Set(['j', 'k', 'Enter']);

/** What a press becomes a click on. */
const PRESSABLE = 'button, a, summary, label, input, [role=treeitem]';
/** What ends a press, or takes it elsewhere. */
const RELEASES = ['pointerup', 'pointercancel', 'blur'];

export default {
  title: ({ id }) => `Run ${id?.slice(-8) ?? ''}`,

  mount(root, { id }, app) {
    const view = new RunView(root, id, app);
    return () => view.unmount();
  },
};

class RunView {
  #app;
  #id;
  #path;
  #root;
  #line;
  /** The run as a list has it. */
  #row = null;
  #isOver = false;
  #isMounted = true;
  #isDirty = true;
  /** A press has begun in the view and is no click yet. */
  #isPressed = false;
  /** What was opened, as a row of the waterfall. */
  #opened = null;
  /** Questions of all runs that wait, and how many of them are of this one and of those inside it. */
  #approvals = [];
  #waiting = 0;
  #closeStream = () => {};
  #versions = { head: '', cards: '', opened: '' };
  #timers = [];
  #later = null;

  constructor(root, id, app) {
    const { h } = app;
    this.#app = app;
    this.#id = id;
    this.#root = root;
    this.#path = `/api/agent/runs/${encodeURIComponent(id)}`;
    this.#line = new Timeline(id);
    const touch = () => { this.#isDirty = true; };
    this.touch = touch;
    this.children = new ChildRuns({ api: app.api, fail: app.fail, changed: touch });
    this.record = createRecord(this.#path, app, { changed: touch, isShown: () => this.#isMounted });
    this.actions = runActions(id, app, { isShown: () => this.#isMounted, goesOn: () => this.#watch() });
    this.waterfall = new Waterfall({
      open: (item) => this.#open(item),
      unfolded: (childId) => {
        this.children.show(childId);
        this.#ask(this.#approvals);
      },
      changed: () => { touch(); this.#draw(); },
    });
    this.head = h('div', { class: 'run-head' });
    this.asks = h('div', { class: 'answers' });
    this.answers = createAnswers(this.asks, app, {
      wanted: ({ run_id: runId }) => runId === id || this.children.has(runId),
      hasRun: ({ run_id: runId }) => runId !== id,
    });
    this.detail = h('div', { class: 'detail' });
    this.about = h('div');
    app.dom.fill(root, this.head, this.asks, h('div', { class: 'columns' },
      this.waterfall.element,
      h('aside', { class: 'side', 'aria-label': 'About the run' }, this.detail, this.about)));
    this.pressed = (event) => this.#press(event);
    document.addEventListener('keydown', this.pressed);
    this.down = ({ button, target }) => { this.#isPressed = button === 0 && target.closest(PRESSABLE) !== null; };
    // The click comes after it.
    this.up = () => setTimeout(() => { this.#isPressed = false; });
    root.addEventListener('pointerdown', this.down);
    for (const type of RELEASES) window.addEventListener(type, this.up);
    this.forget = app.pending.subscribe(({ approvals }) => this.#ask(approvals));
    this.#timers.push(setInterval(() => this.#draw(), DRAW_MS));
    this.#summarize();
    this.#watch();
    this.#draw();
  }

  unmount() {
    if (!this.#isMounted) return;
    this.#isMounted = false;
    for (const timer of this.#timers) clearInterval(timer);
    clearTimeout(this.#later);
    document.removeEventListener('keydown', this.pressed);
    this.#root.removeEventListener('pointerdown', this.down);
    for (const type of RELEASES) window.removeEventListener(type, this.up);
    this.#closeStream();
    this.forget();
    this.answers.close();
    this.children.close();
    this.waterfall.clear();
  }

  /** The run as a list has it, asked for anew. */
  async #summarize() {
    try {
      const { run } = await this.#app.api.get(`${this.#path}?limit=1`);
      if (!this.#isMounted) return;
      this.#row = run;
      if (this.#line.isFull) await this.#jumpToEnd(run);
      this.#versions.head = '';
      this.touch();
    } catch (error) {
      if (!this.#isMounted) return;
      if (error.status !== 404) return this.#app.fail(error);
      const { h, dom } = this.#app;
      this.unmount();
      dom.fill(this.#root, h('h1', null, 'There is no such run'), h('p', null, h('code', null, this.#id)), h('a', { href: '#/runs' }, 'All runs'));
    }
  }

  /** Of a run that has more events than are shown the end is shown all the same. */
  async #jumpToEnd(run) {
    this.#isOver = FINAL.has(run.status);
    if (run.status === 'running') {
      this.#later = setTimeout(() => this.#summarize(), LOOK_MS);
      return;
    }
    const { events } = await this.#app.api.get(`${this.#path}?limit=1&after=${run.head.seq - 1}`);
    for (const event of events) this.#line.addEnd(event);
  }

  #watch() {
    this.#closeStream();
    this.#isOver = false;
    this.#closeStream = this.#app.api.stream(`${this.#path}/events`, {
      types: EVENT_TYPES,
      after: this.#line.lastSeq || null,
      on: (_type, event) => this.#hear(event),
      reset: () => {
        this.#line = new Timeline(this.#id);
        this.touch();
      },
      damaged: () => {
        this.#line.damaged += 1;
        this.touch();
      },
      end: () => {
        this.#isOver = true;
        this.#summarize();
      },
      // That there is no such run, the summary says.
      fail: (error) => { if (error.status !== 404) this.#app.fail(error); },
    });
  }

  #hear(event) {
    this.#line.add(event);
    this.touch();
    if (this.#line.isFull) this.#closeStream();
    if (this.#line.isFull || ['run_started', 'run_completed', 'run_resumed'].includes(event.type)) this.#summarize();
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS.has(event.key)) return;
    const { rows } = this.waterfall;
    if (event.target.closest('input, select, textarea, button, a, summary, dialog, [tabindex="0"]') || rows.element.contains(event.target)) return;
    rows.element.focus({ preventScroll: true });
    rows.press(event);
  }

  #draw() {
    // What is drawn anew under a press would never be clicked.
    if (!this.#isMounted || this.#isPressed || !this.#isDirty && (this.#isOver && !this.#isWaiting() || document.hidden)) return;
    const at = now() * MICROS_PER_MS;
    if (!this.#isKnown()) return this.#app.dom.fill(this.head, this.#app.h('h1', { tabindex: '-1' }, 'Run'), this.#app.h('p', { class: 'dim' }, 'Reading …'));
    if (!this.#isDirty) return this.waterfall.move(at);
    this.#isDirty = false;
    const known = this.children.size;
    this.children.showSome(this.#line.calls);
    if (this.children.size > known) this.#ask(this.#approvals);
    this.waterfall.show({ line: this.#line, childOf: (childId) => this.children.of(childId), isOver: this.#isOver, now: at });
    this.#drawHead();
    this.#drawCards();
    this.#drawOpened();
    return undefined;
  }

  /** Whether anything was read of it. */
  #isKnown() {
    return this.#row !== null || this.#line.events > 0 || this.#line.damaged > 0;
  }

  #isWaiting() {
    return this.#line.completed?.payload.status === 'suspended';
  }

  /** Opens what a person chose. */
  #open(item) {
    this.#opened = item;
    this.waterfall.select(item.key);
    this.#fillDetail(item);
    this.#app.say(`Details of ${item.span.label || item.span.kind}`);
    if (matchMedia('(max-width: 1000px)').matches) this.detail.scrollIntoView({ block: 'start' });
  }

  #fillDetail(item) {
    this.#versions.opened = this.#versionOf(item);
    const isOwn = item.line === this.#line;
    this.#app.dom.fill(this.detail, spanCard(item, this.#app, {
      isOwn,
      close: () => this.#close(),
      zoom: item.span.isPoint ? null : () => this.waterfall.zoom(item.span),
      resume: isOwn && !this.#isExecution() ? (point) => this.actions.resumeFrom(point) : null,
    }));
  }

  #close() {
    this.#opened = null;
    this.#app.dom.fill(this.detail);
    this.waterfall.rows.element.focus();
  }

  #versionOf({ key, span }) {
    return [key, span.end, span.pieces, span.again].join();
  }

  #drawOpened() {
    if (this.#opened === null || this.detail.contains(document.activeElement)) return;
    if (this.#versionOf(this.#opened) !== this.#versions.opened) this.#fillDetail(this.#opened);
  }

  #isExecution() {
    return Boolean(this.#line.started?.payload.session);
  }

  #drawCards() {
    const line = this.#line;
    const version = [line.completed?.seq, line.attempts.length, this.#row?.head.seq, line.toolCalls, line.modelCalls, line.httpCalls, line.cost].join();
    // Whoever reads there, or presses something, is left alone until it goes elsewhere.
    if (version === this.#versions.cards || this.about.contains(document.activeElement)) return;
    const open = new Set([...this.about.querySelectorAll('details[open] > summary')].map((summary) => summary.textContent));
    this.about.replaceChildren(...runCards(line, this.#row, this.#app, {
      record: this.record,
      resume: this.#isExecution() ? null : (point) => this.actions.resumeFrom(point),
    }));
    for (const made of this.about.querySelectorAll('details')) if (open.has(made.firstChild.textContent)) made.open = true;
    this.#versions.cards = version;
  }

  #drawHead() {
    const line = this.#line;
    const started = line.started?.payload;
    const end = line.completed?.payload;
    const recorded = end?.status ?? this.#row?.status ?? 'running';
    // One that was interrupted waits for nobody before it is resumed.
    const isAsking = this.#waiting > 0 && ['running', 'suspended'].includes(recorded);
    const status = this.#row?.corruption ? 'corrupt' : isAsking ? 'waiting' : recorded;
    if (!end && !this.#isOver) this.record.goesOn();
    else if (this.#row) {
      this.record.ended(`${line.completed?.seq}/${line.attempts.length}/${this.#isOver}`,
        { isWell: end?.status === 'ok', isQuick: !line.hasLarge, events: this.#row.head.seq });
    }
    const version = [status, started?.skill, end?.code, this.#isOver, this.record.explanation?.decided, line.calls.length > 0].join();
    if (version === this.#versions.head) return;
    this.#versions.head = version;
    const { h, format, dom } = this.#app;
    const hadFocus = this.head.contains(document.activeElement);
    dom.fill(this.head,
      h('div', { class: 'head' },
        h('h1', { tabindex: '-1' }, started?.skill ?? this.#row?.skill ?? 'Run'), h('span', { class: `chip ${status}` }, status), copied(this.#id, this.#app, 'the id of the run'),
        h('div', { class: 'actions' }, this.#buttons(started, end))),
      h('p', { class: 'dim' },
        started?.parent_run_id ? ['Called by ', h('a', { href: `#/runs/${started.parent_run_id}` }, format.short(started.parent_run_id)), '. '] : null,
        started?.resumed_from ? ['Repeats the beginning of ', h('a', { href: `#/runs/${started.resumed_from}` }, format.short(started.resumed_from)), '. '] : null,
        this.#isExecution() ? ['The ledger of ', h('a', { href: `#/executions/${started.session.execution_id}` }, 'an execution'), '. '] : null,
        line.calls.length ? h('a', { href: `#/runs?parent=${this.#id}` }, 'Runs inside it') : null),
      this.#row?.corruption ? h('div', { class: 'note bad' }, `The ledger is damaged: ${this.#row.corruption}`) : null,
      outcomeCard(line, this.record.explanation, (seq) => this.#reveal(seq)));
    if (hadFocus && !this.head.contains(document.activeElement)) this.head.querySelector('h1').focus({ preventScroll: true });
  }

  #buttons(started, end) {
    const { h } = this.#app;
    const { actions } = this;
    const canCancel = !end || end.status === 'suspended';
    const isCutOff = end?.status === 'interrupted' || this.#isOver && !end;
    if (this.#isExecution()) return isCutOff ? this.#launchAgain(started) : null;
    return [
      canCancel && !this.#isOver ? h('button', { type: 'button', class: 'danger', onclick: actions.cancel }, 'Cancel') : null,
      isCutOff ? h('button', { type: 'button', class: 'primary', onclick: actions.resume }, 'Resume') : null,
      FINAL.has(end?.status) && started ? h('button', { type: 'button', onclick: () => actions.again(started) }, 'Run again') : null];
  }

  /** An execution is not resumed but launched again. */
  #launchAgain({ skill, session }) {
    const query = new URLSearchParams({ agent: skill, prior: this.#id, session: session.session_id ?? '', mode: session.mcp_mode ?? '' });
    return this.#app.h('a', { href: `#/executions?${query}` }, 'Launch it again, where it was');
  }

  /** Opens the row of an event. */
  #reveal(seq) {
    const item = this.waterfall.reveal(seq);
    if (item !== null) this.#open(item);
  }

  #ask(approvals) {
    this.#approvals = approvals;
    this.#waiting = this.answers.show(approvals);
    this.touch();
  }
}
