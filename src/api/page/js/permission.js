// A question of an agent to a person, and the ways to answer it.

import { decidedElsewhere, REASON_CHARS_MAX, timeLeft } from './decision.js';
import { fill, text } from './dom.js';
import * as format from './format.js';

const MILLIS_PER_SECOND = 1_000;

let numbered = 0;

/**
 * A card with the question.
 * @param {object} app what a view is given
 * @param {object} asked the event `permission_request`
 * @param {(answer: object) => Promise<unknown>} send sends the answer
 */
export function permissionCard(app, asked, send) {
  const { h } = app;
  numbered += 1;
  const id = `permission-${numbered}`;
  const untilMs = format.millis(asked.time) + asked.timeout_seconds * MILLIS_PER_SECOND;
  const left = h('p', {});
  const reason = h('input', { id: `${id}-reason`, type: 'text', maxlength: String(REASON_CHARS_MAX) });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  let isAnswered = false;
  const lock = (isLocked) => {
    isAnswered = isLocked;
    for (const button of buttons) button.setAttribute('aria-disabled', String(isLocked));
  };
  const answer = async (decision) => {
    if (isAnswered) return;
    lock(true);
    problem.hidden = true;
    try {
      await send({ ...decision, ...(reason.value === '' ? {} : { reason: reason.value }) });
    } catch (error) {
      const first = error.problem?.decision;
      // What was decided before stays decided.
      lock(Boolean(first));
      problem.hidden = false;
      fill(problem, first ? told(first) : error.message);
    }
  };
  const buttons = waysToAnswer(h, asked.options, answer);
  const controls = h('div', { class: 'permission-controls' },
    h('div', { class: 'field' }, h('label', { for: `${id}-reason` }, 'Reason or answer in words'), reason),
    h('div', { class: 'actions' }, ...buttons), problem, left);
  const details = asked.details === undefined || asked.details === null ? ''
    : h('details', {}, h('summary', {}, 'Details'), text(format.json(asked.details), { label: 'Details' }));
  const card = {
    element: h('section', { class: 'permission', 'aria-labelledby': id },
      h('h2', { id }, 'Asks for permission'), text(asked.title, { label: 'Question' }), details, controls),
    tick() {
      const { words, look } = timeLeft(untilMs);
      left.textContent = words;
      left.className = look;
    },
    decided(event) {
      const said = h('p', { class: 'permission-decided', tabindex: '-1' }, verdict(asked, event));
      const hasFocus = controls.contains(document.activeElement);
      controls.replaceChildren(said);
      if (hasFocus) said.focus();
    },
  };
  card.tick();
  return card;
}

function waysToAnswer(h, options, answer) {
  const way = (label, decision, look) => h('button', { type: 'button', class: look, onclick: () => answer(decision) }, label);
  if (options.length === 0) return [way('Approve', { decision: 'approve' }, 'primary'), way('Reject', { decision: 'reject' }, 'danger')];
  return [
    ...options.map((option) => way(option.label, { decision: 'approve', option: option.id }, '')),
    // One of the choices may be a refusal too; this one is none of them.
    way('Refuse without choosing', { decision: 'reject' }, 'quiet'),
  ];
}

function verdict(asked, event) {
  if (event.type === 'permission_cancelled') return 'Nobody has to answer any more: the turn was cancelled or the execution stopped.';
  const chosen = asked.options.find((option) => option.id === event.option)?.label ?? event.option;
  const what = event.approved ? chosen ?? 'Approved' : 'Rejected';
  const why = event.reason ? `: ${event.reason}` : '';
  return `${what}${why} (${format.decider(event.source)})`;
}

/** What somebody who was first decided. */
function told(first) {
  const chosen = first.option ? ` Chosen: ${first.option}.` : '';
  const why = first.reason ? ` Reason: ${first.reason}` : '';
  return `${decidedElsewhere(first)}${chosen}${why}`;
}
