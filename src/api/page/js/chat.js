// The conversation with one agent: its transcript, and what a person can do.

import { whileBusy } from './busy.js';
import { now } from './clock.js';
import { REASON_CHARS_MAX } from './decision.js';
import { text } from './dom.js';
import * as format from './format.js';
import { MODES } from './launch_form.js';
import { promptBox } from './prompt_box.js';
import { transcript, turnEnd } from './transcript.js';
import { ask } from './value.js';

const LIVE = ['pending', 'starting', 'ready', 'running'];
/** The status that begins with an event. */
const STATUS_AFTER = { boot_ready: 'ready', ready: 'ready', running: 'running' };
const TYPES = [
  'session_status', 'boot_ready', 'ready', 'running', 'message_chunk', 'reasoning', 'plan', 'context_window',
  'tool_call', 'tool_update', 'permission_request', 'permission_answered', 'permission_cancelled', 'mode_changed',
  'tools_changed', 'complete', 'error', 'stopped',
];
/** Milliseconds between two looks at the clock for questions that wait. */
const TICK_MS = 1_000;
const EXECUTION_ID = /^(exec_[0-9a-f]+)_([0-9]+)$/;

/**
 * Shows one execution.
 * @returns {() => void} ends it
 */
export function chat(root, id, app) {
  const shown = new Chat(root, id, app);
  shown.open();
  return () => shown.close();
}

class Chat {
  #root;
  #app;
  #path;
  #aborting = new AbortController();
  #openedMs = now();
  #execution = null;
  #looks = 0;
  #stream = null;
  #ticking = null;
  #talk;
  #head;
  #box;
  #steering;
  #again;
  #foot;

  constructor(root, id, app) {
    const { h } = app;
    this.#root = root;
    this.#app = app;
    this.#path = `/api/agent/executions/${encodeURIComponent(id)}`;
    const look = () => this.#look();
    this.#talk = transcript(app, (permission, answer) => app.api.post(
      `/api/agent/runs/${this.#execution.prior_session}/approve`, { approval_id: permission.permission_id, ...answer }));
    this.#head = headOf(app);
    this.#box = promptBox(app, this.#path, look);
    this.#steering = steeringOf(app, this.#path, look);
    this.#again = h('p', { hidden: true });
    this.#foot = h('div', { class: 'execution-foot' }, ...this.#box.elements, this.#steering.element, this.#again);
    root.append(h('h1', {}, 'Execution ', h('code', { class: 'id' }, id)), this.#head.element, this.#talk.element, this.#foot);
  }

  async open() {
    const { h } = this.#app;
    this.#ticking = setInterval(() => this.#talk.tick(), TICK_MS);
    try {
      await this.#look();
    } catch (error) {
      if (error.name !== 'AbortError') {
        this.#root.replaceChildren(h('h1', {}, 'Execution'), h('p', { class: 'note bad' }, error.message));
      }
      return;
    }
    if (!this.#aborting.signal.aborted) this.#listen();
  }

  close() {
    this.#aborting.abort();
    clearInterval(this.#ticking);
    this.#stream?.();
    this.#talk.close();
  }

  async #look() {
    this.#looks += 1;
    const mine = this.#looks;
    const found = await this.#app.api.get(this.#path, { signal: this.#aborting.signal });
    // Answers may come in another order than they were asked for.
    if (mine === this.#looks) this.#show(found);
  }

  #lookAgain() {
    this.#look().catch(this.#app.fail);
  }

  #show(execution) {
    this.#execution = execution;
    const isLive = LIVE.includes(execution.status);
    const hasFocus = this.#foot.contains(document.activeElement);
    for (const part of [this.#head, this.#box, this.#steering]) part.show(execution, isLive);
    showAgain(this.#app.h, this.#again, execution, isLive);
    // What had the focus is not there any more.
    if (hasFocus && !isLive && !document.activeElement.checkVisibility()) this.#talk.element.focus();
  }

  #listen() {
    this.#stream = this.#app.api.stream(`${this.#path}/events`, {
      types: TYPES,
      on: (_type, event) => {
        this.#talk.add(event);
        this.#hear(event);
        // Nothing follows it; whoever stayed would ask again for what is over.
        if (event.type === 'stopped') this.#over();
      },
      reset: () => this.#talk.clear(),
      live: (isLive) => this.#head.link(isLive ? '' : 'the connection is lost; trying again'),
      end: () => this.#over(),
      fail: (error) => {
        this.#head.link('the connection is lost');
        this.#app.fail(error);
      },
    });
  }

  #over() {
    this.#stream();
    this.#head.link('');
    this.#lookAgain();
  }

  /** What an event says about the state; the first events are those on record, and older than what was asked for. */
  #hear(event) {
    const execution = this.#execution;
    if (event.type === 'context_window') this.#head.context(event);
    if (event.type === 'running') this.#box.begun(event);
    if (!LIVE.includes(execution.status)) return;
    const isNewTurn = event.type === 'running' && event.prompt_generation > execution.prompt_generation;
    if (Object.hasOwn(STATUS_AFTER, event.type)) execution.status = STATUS_AFTER[event.type];
    if (event.type === 'mode_changed') execution.mcp_mode = event.mcp_mode;
    if (isNewTurn) execution.prompts_queued = Math.max(0, execution.prompts_queued - 1);
    if (Object.hasOwn(STATUS_AFTER, event.type) || event.type === 'mode_changed') this.#show(execution);
    // What is on record already is shown and not said.
    if (event.type === 'complete' && format.millis(event.time) >= this.#openedMs) this.#app.say(turnEnd(event));
    if (isNewTurn || event.type === 'session_status') this.#lookAgain();
  }
}

/** What is above the transcript: state, connection and facts. */
function headOf({ h }) {
  const status = h('span', { class: 'chip', id: 'execution-state' }, '…');
  const context = h('span', { class: 'dim' });
  const link = h('span', { class: 'dim', role: 'status', id: 'execution-link' });
  const facts = h('dl', { class: 'facts' });
  let drawn = '';
  return {
    element: h('div', { class: 'execution-head' }, h('p', {}, status, ' ', context, ' ', link),
      h('details', {}, h('summary', {}, 'About it'), facts)),
    context({ used, size }) {
      context.textContent = `context: ${format.count(used)} of ${format.count(size)} tokens`;
    },
    link(words) {
      link.textContent = words;
    },
    show(execution) {
      status.textContent = execution.status;
      status.className = `chip ${execution.status}`;
      // Drawn for each turn, the facts would take the focus from whoever is at a link in them.
      const { status: _status, prompt_generation: _generation, prompts_queued: _queued, ...lasting } = execution;
      const spelled = JSON.stringify(lasting);
      if (spelled === drawn) return;
      drawn = spelled;
      facts.replaceChildren(...factsOf(h, execution).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
    },
  };
}

function factsOf(h, execution) {
  const before = executionBefore(execution.id);
  const linkTo = (id) => h('a', { href: `#/executions/${id}` }, format.short(id));
  return [
    ['Agent', h('a', { href: `#/skills/${encodeURIComponent(execution.agent_profile_id)}` }, execution.agent_profile_id)],
    ['Mode', execution.mcp_mode],
    ['Session', execution.session_id],
    ['Backend', execution.executor_id],
    ['Folder', execution.workspace_path],
    ['Launched by', execution.parent_execution_id && linkTo(execution.parent_execution_id)],
    ['Takes up', before && linkTo(before)],
    ['Started', format.time(execution.started_at)],
    ['Ended', execution.finished_at && format.time(execution.finished_at)],
    ['Code', execution.code],
    ['Reason', execution.stop_reason],
    ['Error', execution.error_message],
    ['Metadata', Object.keys(execution.metadata ?? {}).length === 0 ? '' : text(format.json(execution.metadata), { label: 'Metadata' })],
    ['Ledger', h('a', { href: `#/runs/${execution.prior_session}` }, 'Show as a run')],
  ].filter(([, value]) => value !== undefined && value !== null && value !== '');
}

/** The execution whose ledger that one went on with, if there is one. */
function executionBefore(id) {
  const [, ledger, part] = EXECUTION_ID.exec(id) ?? [];
  return Number(part) > 1 ? `${ledger}_${Number(part) - 1}` : null;
}

/** The mode of its tools, and the ways to end what it does. */
function steeringOf(app, path, look) {
  const { h } = app;
  const mode = h('select', { id: 'mode' }, ...MODES.map((one) => h('option', { value: one }, one)));
  const reason = h('input', { id: 'stop-reason', type: 'text', maxlength: String(REASON_CHARS_MAX) });
  const stop = h('button', { type: 'button', class: 'danger' }, 'Stop');
  const stopChildren = h('button', { type: 'button' }, 'Stop what it launched');
  const body = () => (reason.value === '' ? {} : { reason: reason.value });
  const act = (control, work) => whileBusy(control, work).catch(app.fail).then(look).catch(app.fail);
  mode.addEventListener('change', () => act(mode, () => app.api.post(`${path}/mode`, { mode: mode.value })));
  stop.addEventListener('click', async () => {
    const question = {
      title: 'Stop this execution?',
      body: h('p', {}, 'The turn that goes on is cancelled, prompts that wait are not taken, and what it launched ends with it.'),
      yes: 'Stop it',
      isDanger: true,
    };
    if (await ask(question) === null) return;
    act(stop, async () => {
      const stopped = await app.api.post(`${path}/stop`, body());
      if (stopped.teardown_error !== undefined) app.say(`Stopped; when it was told to end: ${stopped.teardown_error}`);
    });
  });
  stopChildren.addEventListener('click', async () => {
    const question = {
      title: 'Stop what it launched?',
      body: h('p', {}, 'All executions that this one launched end. It goes on itself.'),
      yes: 'Stop them',
      isDanger: true,
    };
    if (await ask(question) === null) return;
    act(stopChildren, async () => {
      const { stopped } = await app.api.post(`${path}/stop-children`, body());
      app.say(stopped.length === 1 ? '1 execution was stopped.' : `${stopped.length} executions were stopped.`);
    });
  });
  const element = h('details', { class: 'steering', hidden: true }, h('summary', {}, 'Mode and stop'),
    h('div', { class: 'field' }, h('label', { for: 'mode' }, 'Mode of its tools'), mode),
    h('div', { class: 'field' }, h('label', { for: 'stop-reason' }, 'Reason for a stop'), reason),
    h('div', { class: 'actions' }, stop, stopChildren));
  return {
    element,
    show(execution, isLive) {
      element.hidden = !isLive;
      mode.value = execution.mcp_mode;
    },
  };
}

/** The way to launch one again that has ended. */
function showAgain(h, again, execution, isLive) {
  again.hidden = isLive || !isResumable(execution);
  if (again.hidden || again.childElementCount > 0) return;
  const query = new URLSearchParams({
    agent: execution.agent_profile_id, prior: execution.prior_session, session: execution.session_id, mode: execution.mcp_mode,
  });
  again.append(h('a', { href: `#/executions?${query}` }, 'Launch it again, where it was'));
}

/** Whether a later launch can take it up. */
function isResumable({ status, code }) {
  return status === 'stopped' || code === 'ambiguous_call' || code === 'diverged';
}
