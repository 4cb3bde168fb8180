// What was said and done in an execution, put together from its events as they come.

import { cutAt, line, text, visible } from './dom.js';
import * as format from './format.js';
import { permissionCard } from './permission.js';

/** Entries that are drawn. Protects the page from an agent that does ten thousand things. */
const ENTRIES_DRAWN_MAX = 300;
/** Entries that are kept to be drawn when somebody asks for earlier ones. Protects the memory of the page. */
const ENTRIES_KEPT_MAX = 20_000;
/** Events that wait to be drawn; further ones are counted and left to the ledger. Protects the memory of the page. */
const EVENTS_WAITING_MAX = 50_000;
/** Milliseconds of a frame that drawing may take. Protects whoever types or clicks meanwhile. */
const FRAME_MS = 8;
/** Characters of a text that are drawn while it grows. Protects whoever types meanwhile. */
const GROWING_CHARS_MAX = 4_000;
/** Characters of one text that are kept; the ledger has the rest. Protects the memory of the page. */
const KEPT_CHARS_MAX = 2_000_000;
/** Steps of a plan that are drawn. Protects the page from a plan without an end. */
const STEPS_DRAWN_MAX = 200;
/** Characters of a note; the ledger has the rest. */
const NOTE_CHARS_MAX = 2_000;
/** Pixels from the end from which a reader counts as being there. */
const END_PIXELS = 80;

/**
 * The transcript of one execution.
 * @param {object} app what a view is given
 * @param {(permission: object, answer: object) => Promise<unknown>} answer sends an answer to a question
 */
export function transcript(app, answer) {
  return new Transcript(app, answer);
}

class Transcript {
  #app;
  #answer;
  #waiting = [];
  #lost = 0;
  #entries = [];
  #drawnFrom = 0;
  #frame = null;
  #growing = null;
  #turn = null;
  #plans = new Map();
  #calls = new Map();
  #permissions = new Map();

  constructor(app, answer) {
    const { h } = app;
    this.#app = app;
    this.#answer = answer;
    this.list = h('ol', { class: 'transcript-list' });
    this.earlier = h('button', { type: 'button', class: 'quiet', hidden: true, onclick: () => this.#showEarlier() });
    this.element = h('div', { class: 'transcript', tabindex: '0', role: 'region', 'aria-label': 'Conversation' }, this.earlier, this.list);
  }

  /** Takes an event; it is drawn in one of the next frames. */
  add(event) {
    if (this.#waiting.length >= EVENTS_WAITING_MAX) {
      this.#lost += 1;
      return;
    }
    this.#waiting.push(event);
    this.#frame ??= requestAnimationFrame(() => this.#draw());
  }

  /** Forgets everything: what follows comes from the beginning. */
  clear() {
    this.#waiting = [];
    this.#entries = [];
    this.#drawnFrom = 0;
    this.#growing = null;
    this.#turn = null;
    for (const known of [this.#plans, this.#calls, this.#permissions]) known.clear();
    this.list.replaceChildren();
    this.#tellEarlier();
  }

  /** Counts the time of open questions down. */
  tick() {
    for (const card of this.#permissions.values()) card.tick();
  }

  close() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#waiting = [];
  }

  #draw() {
    this.#frame = null;
    const { element } = this;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < END_PIXELS;
    const began = performance.now();
    let at = 0;
    while (at < this.#waiting.length && performance.now() - began < FRAME_MS) {
      this.#take(this.#waiting[at]);
      at += 1;
    }
    this.#waiting.splice(0, at);
    if (this.#lost > 0 && this.#waiting.length === 0) {
      this.#note(`${this.#lost} events are not shown here. They are on record.`);
      this.#lost = 0;
    }
    this.#growing?.flush();
    if (isAtEnd) element.scrollTop = element.scrollHeight;
    if (this.#waiting.length > 0) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #take(event) {
    if (event.type === 'message_chunk' || event.type === 'reasoning') {
      this.#grow(event);
      return;
    }
    this.#growing?.end();
    this.#growing = null;
    EVENTS[event.type]?.call(this, event);
  }

  #grow(event) {
    const isSame = this.#growing?.type === event.type && this.#growing.generation === event.prompt_generation;
    if (!isSame) {
      this.#growing?.end();
      this.#growing = new Growing(this.#app.h, event);
      this.#append(this.#growing.element);
    }
    this.#growing.add(event.text);
  }

  #append(element) {
    this.#entries.push(element);
    this.list.append(element);
    if (this.#entries.length - this.#drawnFrom > ENTRIES_DRAWN_MAX * 2) {
      const drawnFrom = this.#entries.length - ENTRIES_DRAWN_MAX;
      this.#entries.slice(this.#drawnFrom, drawnFrom).forEach((one) => one.remove());
      this.#drawnFrom = drawnFrom;
      const tooMany = this.#entries.length - ENTRIES_KEPT_MAX;
      if (tooMany > 0) {
        this.#entries.splice(0, tooMany);
        this.#drawnFrom -= tooMany;
      }
      this.#tellEarlier();
    }
  }

  #tellEarlier() {
    this.earlier.hidden = this.#drawnFrom === 0;
    this.earlier.textContent = `Show earlier entries (${this.#drawnFrom})`;
  }

  #showEarlier() {
    const from = Math.max(0, this.#drawnFrom - ENTRIES_DRAWN_MAX);
    const first = this.list.firstElementChild;
    this.list.prepend(...this.#entries.slice(from, this.#drawnFrom));
    this.#drawnFrom = from;
    this.#tellEarlier();
    first?.scrollIntoView({ block: 'start' });
  }

  #note(words, kind = 'note') {
    this.#append(this.#app.h('li', { class: `entry entry-${kind}` }, line(words, NOTE_CHARS_MAX)));
  }

  prompted({ prompt, prompt_generation: generation, time }) {
    const { h } = this.#app;
    const title = h('h2', {}, `Prompt ${generation} · `, h('time', { datetime: time }, format.time(time)));
    this.#append(h('li', { class: 'entry entry-prompt' }, title, text(prompt, { label: `Prompt ${generation}` })));
    this.#turn = { generation, time, title };
  }

  planned({ entries, prompt_generation: generation }) {
    const { h } = this.#app;
    const items = entries.slice(0, STEPS_DRAWN_MAX).map((entry) => h('li', { class: `plan-${entry.status}` },
      h('span', { class: 'plan-status' }, format.words(entry.status)), ' ', line(entry.description, NOTE_CHARS_MAX)));
    if (entries.length > items.length) items.push(h('li', {}, `and ${entries.length - items.length} more`));
    const plan = h('ul', {}, ...items);
    const shown = this.#plans.get(generation);
    if (shown !== undefined) {
      shown.replaceWith(plan);
    } else {
      this.#append(h('li', { class: 'entry entry-plan' }, h('h2', {}, 'Plan'), plan));
    }
    this.#plans.set(generation, plan);
  }

  called({ call_id: id, name, target, arguments: given, child_run_id: childRunId }) {
    const { h } = this.#app;
    const state = h('span', { class: 'chip running' }, 'running');
    const what = target === 'skill' ? 'Skill' : target === 'tools' ? 'List of tools' : 'Tool';
    const body = h('div', {},
      childRunId ? h('p', {}, 'Its run: ', h('a', { href: `#/runs/${childRunId}` }, this.#app.format.short(childRunId))) : '',
      h('h3', {}, 'Arguments'), text(pretty(given), { label: `Arguments of ${name}` }));
    this.#append(h('li', { class: 'entry entry-call' },
      h('details', {}, h('summary', {}, `${what} `, h('code', {}, line(name)), ' ', state), body)));
    this.#calls.set(id, { state, body, name });
  }

  answered({ call_id: id, output, is_error: isError, error }) {
    const { h } = this.#app;
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    const word = isError ? 'error' : 'ok';
    call.state.textContent = word;
    call.state.className = `chip ${word}`;
    const shown = output === undefined ? failure(error) : pretty(output);
    call.body.append(h('h3', {}, isError ? 'Error' : 'Result'), text(shown, { label: `Result of ${call.name}` }));
  }

  asked(event) {
    const card = permissionCard(this.#app, event, (answer) => this.#answer(event, answer));
    this.#permissions.set(event.permission_id, card);
    this.#append(this.#app.h('li', { class: 'entry entry-permission' }, card.element));
  }

  decided(event) {
    this.#permissions.get(event.permission_id)?.decided(event);
    this.#permissions.delete(event.permission_id);
  }

  completed(event) {
    const { usage } = event;
    const tokens = usage.input_tokens + usage.output_tokens;
    const cost = tokens === 0 ? '' : ` · ${format.count(tokens)} tokens, ${format.cost(usage.cost_usd)}`;
    const turn = this.#turn?.generation === event.prompt_generation ? this.#turn : null;
    const tookMicros = turn === null ? null : format.micros(event.time) - format.micros(turn.time);
    if (event.undone) turn?.title.append(' · undone');
    this.#note(`${turnEnd(event, tookMicros)}${cost}`, event.stop_reason === 'error' ? 'error' : 'note');
  }

  failed({ message, code }) {
    this.#note(code === undefined ? message : `${message} (${code})`, 'error');
  }

  stopped(event) {
    for (const { state } of this.#calls.values()) {
      state.textContent = 'no answer';
      state.className = 'chip';
    }
    this.#calls.clear();
    // What an interrupted one asks can still be answered, for when it is taken up.
    if (event.code !== 'interrupted') {
      for (const card of this.#permissions.values()) card.decided({ type: 'permission_cancelled' });
      this.#permissions.clear();
    }
    this.#note(executionEnd(event), event.status === 'failed' ? 'error' : 'note');
  }

  began({ status, mcp_mode: mode, turn_goes_on: goesOn }) {
    const turn = goesOn === undefined ? '' : `; the turn of prompt ${goesOn} goes on`;
    this.#note(`${status === 'resumed' ? 'Taken up again' : 'Launched'}, with the tools of mode ${mode}${turn}`);
  }

  moded({ mcp_mode: mode }) {
    this.#note(`The tools are now those of mode ${mode}`);
  }
}

const EVENTS = {
  session_status: Transcript.prototype.began,
  running: Transcript.prototype.prompted,
  plan: Transcript.prototype.planned,
  tool_call: Transcript.prototype.called,
  tool_update: Transcript.prototype.answered,
  permission_request: Transcript.prototype.asked,
  permission_answered: Transcript.prototype.decided,
  permission_cancelled: Transcript.prototype.decided,
  mode_changed: Transcript.prototype.moded,
  complete: Transcript.prototype.completed,
  error: Transcript.prototype.failed,
  stopped: Transcript.prototype.stopped,
};

/** A text that comes in pieces. */
class Growing {
  #whole = '';
  #drawn = 0;
  #leftOut = 0;
  #pre;
  #note;

  constructor(h, { type, prompt_generation: generation }) {
    this.type = type;
    this.generation = generation;
    this.label = type === 'reasoning' ? 'Reasoning' : 'Answer';
    this.#pre = h('pre', { class: 'text' });
    this.#note = h('p', { class: 'dim', hidden: true }, 'More is coming. It is shown when this text is complete.');
    const body = type === 'reasoning'
      ? h('details', { open: true }, h('summary', {}, 'Reasoning'), this.#pre)
      : this.#pre;
    this.element = h('li', { class: `entry entry-${type}` }, type === 'reasoning' ? '' : h('h2', {}, 'Agent'), body, this.#note);
  }

  add(piece) {
    const room = this.#leftOut > 0 ? 0 : KEPT_CHARS_MAX - this.#whole.length;
    const kept = piece.slice(0, cutAt(piece, Math.min(piece.length, room)));
    this.#whole += kept;
    this.#leftOut += piece.length - kept.length;
  }

  flush() {
    const end = Math.max(this.#drawn, cutAt(this.#whole, Math.min(this.#whole.length, GROWING_CHARS_MAX)));
    if (end > this.#drawn) this.#pre.append(visible(this.#whole.slice(this.#drawn, end)));
    this.#drawn = end;
    this.#note.hidden = end === this.#whole.length;
  }

  end() {
    this.#pre.replaceWith(text(this.#whole, { label: this.label }));
    this.#note.hidden = this.#leftOut === 0;
    this.#note.textContent = `${format.count(this.#leftOut)} further characters are not shown here. They are on record.`;
  }
}

/** What is said of the end of a turn, by its reason: before the time that it took, and after that. */
const TURN_ENDS = {
  end_turn: ['ended', ''],
  cancelled: ['was cancelled', ''],
  refusal: ['ended', ': the prompt was declined'],
  token_limit: ['ended', ': a model came to the end of its tokens'],
  error: ['ended', ' with an error'],
};

/**
 * How a turn ended, in words.
 * @param {object} event the event `complete`
 * @param {number | null} tookMicros how long it took, where that is known
 */
export function turnEnd({ prompt_generation: generation, stop_reason: reason, undone, error }, tookMicros = null) {
  const [verb, why] = Object.hasOwn(TURN_ENDS, reason) ? TURN_ENDS[reason] : ['ended', `: ${format.words(reason)}`];
  const took = tookMicros === null ? '' : ` after ${format.duration(tookMicros)}`;
  const said = error === undefined ? '' : `: ${error}`;
  const undoing = undone ? '. It is undone: for the agent it never was. What it did outside stays' : '';
  return `Turn ${generation} ${verb}${took}${why}${said}${undoing}`;
}

/**
 * How an execution ended, in words.
 * @param {object} event the event `stopped`
 */
export function executionEnd({ status, code, reason, message }) {
  const why = [reason, message].filter((part) => part !== undefined && part !== code);
  const by = code === 'ok' ? '' : ` (${format.words(code)})`;
  return `The execution ${status}${by}${why.length === 0 ? '' : `: ${why.join(': ')}`}`;
}

function pretty(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function failure(error) {
  if (error === undefined) return 'no answer';
  return typeof error === 'object' && error !== null ? JSON.stringify(error, null, 2) : String(error);
}
