// The conversation with one agent: its transcript, and what a person can do.

import { text } from './dom.js';
import { transcript } from './transcript.js';

const MODES = ['task', 'config', 'office'];
const LIVE = ['pending', 'starting', 'ready', 'running'];
const TYPES = [
  'session_status', 'boot_ready', 'ready', 'running', 'message_chunk', 'reasoning', 'plan', 'context_window',
  'tool_call', 'tool_update', 'permission_request', 'permission_answered', 'permission_cancelled', 'mode_changed',
  'tools_changed', 'complete', 'error', 'stopped',
];
/** Milliseconds between two looks at the clock for questions that wait. */
const TICK_MS = 1_000;

/**
 * Shows one execution.
 * @returns {() => void} ends it
 */
export function chat(root, id, app) {
  const { h } = app;
  const path = `/api/agent/executions/${encodeURIComponent(id)}`;
  const aborting = new AbortController();
  const state = { execution: null };
  const talk = transcript(app, (permission, answer) => {
    const run = state.execution.prior_session;
    return app.api.post(`/api/agent/runs/${run}/approve`, { approval_id: permission.permission_id, ...answer });
  });
  const panel = controls(app, path, state);
  root.append(
    h('h1', {}, 'Execution ', h('code', { class: 'id' }, id)),
    panel.head,
    talk.element,
    panel.foot);
  const look = () => app.api.get(path, { signal: aborting.signal }).then((execution) => {
    state.execution = execution;
    panel.show(execution);
  });
  let close = () => {};
  look().then(() => {
    if (aborting.signal.aborted) return;
    close = app.api.stream(`${path}/events`, {
      types: TYPES,
      on(type, event) {
        talk.add(event);
        if (state.execution !== null) panel.heard(event, state.execution);
        if (type === 'session_status' || type === 'stopped') look().catch(app.fail);
      },
      reset: () => talk.clear(),
      live: (isLive) => panel.live(isLive),
      fail: app.fail,
    });
  }).catch((error) => {
    if (error.name === 'AbortError') return;
    root.replaceChildren(h('h1', {}, 'Execution'), h('p', { class: 'note bad' }, error.message));
  });
  const interval = setInterval(() => talk.tick(), TICK_MS);
  return () => {
    aborting.abort();
    clearInterval(interval);
    close();
    talk.close();
  };
}

function controls(app, path, state) {
  const { h, format } = app;
  const status = h('span', { class: 'chip', id: 'execution-state' }, '…');
  const facts = h('dl', { class: 'facts' });
  const context = h('span', { class: 'dim' });
  const link = h('span', { class: 'dim', role: 'status' });
  const prompt = h('textarea', { id: 'prompt', rows: 3 });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Send');
  const cancel = h('button', { type: 'button' }, 'Cancel turn');
  const mode = h('select', { id: 'mode' }, ...MODES.map((one) => h('option', { value: one }, one)));
  const reason = h('input', { id: 'stop-reason', type: 'text', maxlength: '1024' });
  const stop = h('button', { type: 'button', class: 'danger' }, 'Stop');
  const stopChildren = h('button', { type: 'button' }, 'Stop what it launched');
  const again = h('p', { hidden: true });
  const openedMs = Date.now();
  const act = (button, work) => {
    button.disabled = true;
    return work().catch(app.fail).finally(() => { show(state.execution); });
  };
  cancel.addEventListener('click', () => act(cancel, () => app.api.post(`${path}/cancel`)));
  mode.addEventListener('change', () => act(mode, async () => {
    const { mcp_mode: now } = await app.api.post(`${path}/mode`, { mode: mode.value });
    state.execution.mcp_mode = now;
  }));
  stop.addEventListener('click', () => act(stop, async () => {
    const stopped = await app.api.post(`${path}/stop`, reason.value === '' ? {} : { reason: reason.value });
    if (stopped.teardown_error !== undefined) app.say(`Stopped; when it was told to end: ${stopped.teardown_error}`);
  }));
  stopChildren.addEventListener('click', () => act(stopChildren, async () => {
    const { stopped } = await app.api.post(`${path}/stop-children`, reason.value === '' ? {} : { reason: reason.value });
    app.say(`${stopped.length} executions were stopped.`);
  }));
  const form = h('form', { class: 'prompt-box' },
    h('label', { for: 'prompt' }, 'Prompt'), prompt,
    h('div', { class: 'actions' }, send, cancel, h('span', { class: 'dim' }, 'Ctrl + Enter sends')));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (prompt.value === '') return;
    act(send, async () => {
      await app.api.post(`${path}/prompt`, { prompt: prompt.value });
      prompt.value = '';
      prompt.focus();
    });
  });
  prompt.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const steering = h('details', { class: 'steering' }, h('summary', {}, 'Steer'),
    h('div', { class: 'field' }, h('label', { for: 'mode' }, 'Mode of its tools'), mode),
    h('div', { class: 'field' }, h('label', { for: 'stop-reason' }, 'Reason for a stop'), reason),
    h('div', { class: 'actions' }, stop, stopChildren));

  function show(execution) {
    if (execution === null) return;
    const isLive = LIVE.includes(execution.status);
    status.textContent = execution.status;
    status.className = `chip ${execution.status}`;
    if (document.activeElement !== mode) mode.value = execution.mcp_mode;
    for (const control of [prompt, send, mode, reason, stop, stopChildren]) control.disabled = !isLive;
    cancel.disabled = execution.status !== 'running';
    form.hidden = !isLive;
    steering.hidden = !isLive;
    again.hidden = isLive || !isResumable(execution);
    if (!again.hidden && again.childElementCount === 0) {
      const query = new URLSearchParams({ agent: execution.agent_profile_id, prior: execution.prior_session, session: execution.session_id });
      again.append(h('a', { href: `#/executions?${query}` }, 'Launch it again, where it was'));
    }
    drawFacts(execution);
  }

  function drawFacts(execution) {
    const entries = [
      ['Agent', h('a', { href: `#/skills/${encodeURIComponent(execution.agent_profile_id)}` }, execution.agent_profile_id)],
      ['Mode', execution.mcp_mode],
      ['Session', execution.session_id],
      ['Backend', execution.executor_id],
      ['Folder', execution.workspace_path],
      ['Launched by', execution.parent_execution_id && h('a', { href: `#/executions/${execution.parent_execution_id}` }, format.short(execution.parent_execution_id))],
      ['Started', format.time(execution.started_at)],
      ['Ended', execution.finished_at && format.time(execution.finished_at)],
      ['Code', execution.code],
      ['Reason', execution.stop_reason],
      ['Error', execution.error_message],
      ['Metadata', Object.keys(execution.metadata ?? {}).length === 0 ? '' : text(JSON.stringify(execution.metadata, null, 2), { label: 'Metadata' })],
      ['Ledger', h('a', { href: `#/runs/${execution.prior_session}` }, 'Show as a run')],
    ].filter(([, value]) => value !== undefined && value !== null && value !== '');
    facts.replaceChildren(...entries.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
  }

  /** What an event says about the state; the first events are those on record, and older than what was asked for. */
  function heard(event, execution) {
    if (event.type === 'context_window') {
      context.textContent = `context: ${format.count(event.used)} of ${format.count(event.size)} tokens`;
    }
    if (!LIVE.includes(execution.status)) return;
    const next = { boot_ready: 'ready', ready: 'ready', running: 'running' }[event.type];
    if (next !== undefined) execution.status = next;
    if (event.type === 'mode_changed') execution.mcp_mode = event.mcp_mode;
    // What is on record already is shown and not said.
    if (event.type === 'complete' && Date.parse(event.time) >= openedMs) app.say(`Turn ${event.prompt_generation} ended: ${format.words(event.stop_reason)}`);
    if (next !== undefined || event.type === 'mode_changed') show(execution);
  }

  return {
    head: h('div', { class: 'execution-head' }, h('p', {}, status, ' ', context, ' ', link),
      h('details', {}, h('summary', {}, 'About it'), facts)),
    foot: h('div', { class: 'execution-foot' }, form, steering, again),
    show,
    heard,
    live(isLive) {
      link.textContent = isLive ? '' : 'the connection is lost; trying again';
    },
  };
}

/** Whether a later launch can take it up. */
function isResumable({ status, code }) {
  return status === 'stopped' || code === 'ambiguous_call' || code === 'diverged';
}
