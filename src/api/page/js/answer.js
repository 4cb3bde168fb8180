// A question of a run, and the way to answer it.

import { now } from './clock.js';
import { fill, h, text } from './dom.js';
import * as format from './format.js';
import { facts, value } from './value.js';

/** Characters that a reason may have, as the daemon has it. */
const REASON_CHARS_MAX = 1_024;

let count = 0;

function timeLeft(approval) {
  const asked = format.millis(approval.asked_at);
  if (asked === null) return null;
  return asked + approval.timeout_ms - now();
}

function decided(decision) {
  const word = decision.decision === 'approve' ? 'approved' : 'rejected';
  return h('div', { class: `note ${decision.decision === 'approve' ? 'good' : 'bad'}`, role: 'status' },
    h('p', null, h('strong', null, `Somebody was first: it was ${word}`), ` ${format.decider(decision.source)}.`),
    decision.option ? h('p', null, 'Chosen: ', h('code', null, decision.option)) : null,
    decision.reason ? h('p', null, 'Reason: ', decision.reason) : null);
}

/**
 * A card with prompt, payload, the time that is left and the answers there are. `answered(approval)` is called when
 * the answer is on record. Returns `{ element, close }`.
 */
export function answerCard(approval, app, { answered, hasRun = true } = {}) {
  count += 1;
  const id = `answer-${count}`;
  const options = approval.options ?? [];
  const left = h('strong', { class: 'left' });
  const reason = h('textarea', { id: `${id}-why`, rows: '2', maxlength: String(REASON_CHARS_MAX), placeholder: 'Optional. The skill and the ledger have it too.' });
  const outcome = h('div', { class: 'outcome' });
  const chosen = options.length
    ? h('fieldset', { class: 'options' }, h('legend', null, 'Choose one'), options.map((option, place) => h('label', null,
      h('input', { type: 'radio', name: `${id}-option`, value: option.id, checked: place === 0 }), h('span', null, option.label || option.id), h('code', { class: 'dim' }, option.id))))
    : null;
  // Yes alone is no answer to what the client of a run is to fill in.
  const isForClient = approval.needs_answer === true;
  const approve = isForClient ? null : h('button', { type: 'button', class: 'primary', onclick: () => answer('approve') }, options.length ? 'Choose' : 'Approve');
  const reject = h('button', { type: 'button', class: 'danger', onclick: () => answer('reject') }, 'Reject');
  const element = h('article', { class: 'card answer', 'aria-labelledby': `${id}-title` },
    h('div', { class: 'head' },
      h('h2', { id: `${id}-title` }, 'A run asks'),
      hasRun ? h('a', { href: `#/runs/${approval.run_id}`, class: 'mono' }, format.short(approval.run_id)) : null,
      h('span', { class: 'chip waiting' }, 'waiting'), left),
    text(approval.prompt, { label: 'Question' }),
    approval.payload === undefined ? null : value('What it is about', approval.payload),
    chosen,
    isForClient ? h('p', { class: 'note' }, 'It is for the MCP client of the run to answer. Here it can only be rejected.') : null,
    h('div', { class: 'field' }, h('label', { for: `${id}-why` }, 'Reason'), reason),
    h('div', { class: 'actions' }, approve, reject),
    outcome,
    h('details', null, h('summary', { class: 'dim' }, 'To what the decision is bound'), facts([
      ['Question', h('code', null, approval.approval_id)],
      ['Binding', h('code', null, approval.binding)],
      ['Asked', format.time(approval.asked_at)]])));

  function lock(isLocked) {
    for (const control of element.querySelectorAll('.actions button, textarea, input')) control.disabled = isLocked;
    element.classList.toggle('settled', isLocked);
  }

  async function answer(decision) {
    const body = { decision, approval_id: approval.approval_id };
    if (reason.value.trim()) body.reason = reason.value.trim();
    if (decision === 'approve' && options.length) body.option = element.querySelector('input[type=radio]:checked')?.value;
    lock(true);
    try {
      const done = await app.api.post(`/api/agent/runs/${encodeURIComponent(approval.run_id)}/approve`, body);
      app.say(decision === 'approve' ? 'Approved' : 'Rejected');
      fill(outcome, h('div', { class: 'note good', role: 'status' }, decision === 'approve' ? 'Approved; it is on record.' : 'Rejected; it is on record.'));
      answered?.(done);
    } catch (error) {
      if (error.status === 409 && error.problem?.decision) {
        fill(outcome, decided(error.problem.decision));
        app.say('Somebody else was first');
      } else {
        lock(false);
        app.fail(error);
      }
    }
  }

  function tick() {
    const millis = timeLeft(approval);
    if (millis === null) return;
    const isOver = millis <= 0;
    left.textContent = isOver ? 'time is over' : `${format.duration(Math.ceil(millis / 1_000) * 1_000_000)} left`;
    left.className = `left ${isOver ? 'bad' : millis < 60_000 ? 'warn' : 'dim'}`;
  }
  tick();
  const ticking = setInterval(tick, 1_000);
  return {
    element,
    /** Whether something stands in the card that should not vanish by itself. */
    get isTouched() { return Boolean(reason.value || outcome.firstChild || element.contains(document.activeElement)); },
    /** Says what became of the question without this page. */
    gone() {
      if (outcome.firstChild) return;
      lock(true);
      fill(outcome, h('div', { class: 'note', role: 'status' }, 'It was answered elsewhere, or its run has ended.'));
    },
    /** Says who answered it elsewhere. */
    decided(decision) {
      lock(true);
      fill(outcome, decided(decision));
    },
    close: () => clearInterval(ticking),
  };
}
