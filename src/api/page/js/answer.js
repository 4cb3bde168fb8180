// A question of a run, and the way to answer it.

import { decidedElsewhere, REASON_CHARS_MAX, timeLeft } from './decision.js';
import { fill, h, line, text } from './dom.js';
import * as format from './format.js';
import { facts, value } from './value.js';

/** Characters that are shown of why an answer failed. Protects the card. */
const FAILURE_CHARS_MAX = 600;

/** Milliseconds between two looks at the clock. */
const TICK_MS = 1_000;

let count = 0;

/** What an answer was that did not come from this card. */
function decisionNote(decision) {
  return h('div', { class: `note ${decision.decision === 'approve' ? 'good' : 'bad'}` },
    h('p', null, h('strong', null, decidedElsewhere(decision))),
    decision.option ? h('p', null, 'Chosen: ', h('code', null, decision.option)) : null,
    decision.reason ? h('p', null, 'Reason: ', decision.reason) : null);
}

function failureNote(error) {
  return h('div', { class: 'note bad' },
    h('p', null, 'It is not answered: ', line(error.detail ?? error.message, FAILURE_CHARS_MAX)),
    error.hint ? h('p', { class: 'dim' }, line(error.hint, FAILURE_CHARS_MAX)) : null);
}

/** What one fills in and presses in a card. `answer(decision)` is called for a button. */
function controlsOf(approval, id, answer) {
  const options = approval.options ?? [];
  const reason = h('textarea', { id: `${id}-why`, rows: '2', maxlength: String(REASON_CHARS_MAX), placeholder: 'Optional. The skill and the ledger have it too.' });
  const chosen = options.length
    ? h('fieldset', { class: 'options' }, h('legend', null, 'Choose one'), options.map((option, place) => h('label', null,
      h('input', { type: 'radio', name: `${id}-option`, value: option.id, checked: place === 0 }), h('span', null, option.label || option.id), h('code', { class: 'dim' }, option.id))))
    : null;
  const button = (decision, word, look) => h('button', { type: 'button', class: look, onclick: () => answer(decision) }, word);
  // Yes alone is no answer to what the client of a run is to fill in.
  const isForClient = approval.needs_answer === true;
  const buttons = [isForClient ? null : button('approve', options.length ? 'Choose' : 'Approve', 'primary'), button('reject', 'Reject', 'danger')];
  return {
    reason,
    parts: [chosen,
      isForClient ? h('p', { class: 'note' }, 'It is for the MCP client of the run to answer. Here it can only be rejected.') : null,
      h('div', { class: 'field' }, h('label', { for: `${id}-why` }, 'Reason'), reason),
      h('div', { class: 'actions' }, buttons)],
    /** What is locked keeps the focus, which a control that is disabled would lose. */
    lock(isLocked) {
      for (const one of buttons) one?.setAttribute('aria-disabled', String(isLocked));
      reason.readOnly = isLocked;
    },
    body(decision) {
      const body = { decision, approval_id: approval.approval_id };
      if (reason.value.trim()) body.reason = reason.value.trim();
      if (decision === 'approve' && chosen) body.option = chosen.querySelector('input:checked')?.value;
      return body;
    },
  };
}

/** Shows in `element`, each second, how much time is left; returns what ends that. */
function showTimeLeft(element, approval) {
  const askedMs = format.millis(approval.asked_at);
  if (askedMs === null) return () => {};
  function tick() {
    const { words, look } = timeLeft(askedMs + approval.timeout_ms);
    element.textContent = words;
    element.className = `left ${look}`;
  }
  tick();
  const ticking = setInterval(tick, TICK_MS);
  return () => clearInterval(ticking);
}

/** What a card consists of, from top to bottom. */
function frameOf(approval, id, { hasRun, left, controls, outcome }) {
  return h('article', { class: 'card answer', 'aria-labelledby': `${id}-title` },
    h('div', { class: 'head' },
      h('h2', { id: `${id}-title` }, 'A run asks'),
      hasRun ? h('a', { href: `#/runs/${approval.run_id}`, class: 'mono' }, format.short(approval.run_id)) : null,
      h('span', { class: 'chip waiting' }, 'waiting'), left),
    text(approval.prompt, { label: 'Question' }),
    approval.payload === undefined ? null : value('What it is about', approval.payload),
    controls.parts,
    outcome,
    h('details', null, h('summary', { class: 'dim' }, 'Details of the question'), facts([
      ['Question', h('code', null, approval.approval_id)],
      ['Binding', h('code', null, approval.binding)],
      ['Asked', format.time(approval.asked_at)]])));
}

/** Whether nobody carries the run out, so that an answer alone moves nothing. */
async function isInterrupted(app, path) {
  try {
    return (await app.api.get(`${path}?limit=1`)).run.status === 'interrupted';
  } catch {
    // The answer stands, whatever becomes of the run.
    return false;
  }
}

/** A card with prompt, payload, the time that is left and the answers there are. */
export function answerCard(approval, app, { hasRun = true } = {}) {
  count += 1;
  const id = `answer-${count}`;
  const path = `/api/agent/runs/${encodeURIComponent(approval.run_id)}`;
  let state = 'open';
  let heard = null;
  const controls = controlsOf(approval, id, answer);
  const left = h('strong', { class: 'left' });
  const outcome = h('div', { class: 'outcome', role: 'status' });
  const element = frameOf(approval, id, { hasRun, left, controls, outcome });
  const close = showTimeLeft(left, approval);

  function become(next, note) {
    state = next;
    controls.lock(state !== 'open');
    element.classList.toggle('settled', state === 'gone' || state === 'decided');
    fill(outcome, note);
  }

  async function answer(decision) {
    if (state !== 'open') return;
    become('sending', null);
    try {
      await app.api.post(`${path}/approve`, controls.body(decision));
    } catch (error) {
      const earlier = error.problem?.decision ?? heard;
      if (earlier) become('decided', decisionNote(earlier));
      else become('open', failureNote(error));
      return;
    }
    const done = h('p', null, decision === 'approve' ? 'Approved; it is on record.' : 'Rejected; it is on record.');
    become('decided', h('div', { class: 'note good' }, done));
    app.pending.refresh();
    if (await isInterrupted(app, path)) {
      done.after(h('p', null, 'Its run was interrupted, and goes on when it is resumed. ',
        hasRun ? h('a', { href: `#/runs/${approval.run_id}` }, 'Open the run') : null));
    }
  }

  return {
    element,
    /** Whether something stands in the card that should not vanish by itself. */
    get isTouched() {
      return Boolean(controls.reason.value || state !== 'open' || outcome.firstChild || element.contains(document.activeElement));
    },
    /** Takes back that it was gone. */
    open() {
      if (state === 'gone') become('open', null);
    },
    /** Says that the question waits no longer. */
    gone() {
      if (state !== 'open') return;
      if (heard) become('decided', decisionNote(heard));
      else become('gone', h('div', { class: 'note' }, 'It was answered elsewhere, or its run has ended.'));
    },
    /** Hears what was decided, here or elsewhere; what this card sends is answered by the daemon itself. */
    decided(decision) {
      heard = decision;
      if (state === 'gone' || state === 'open' && this.isTouched) become('decided', decisionNote(decision));
    },
    close,
  };
}
