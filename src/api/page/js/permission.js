// A question of an agent to a person, and the ways to answer it.

import { text } from './dom.js';
import * as format from './format.js';

/** Characters of a reason; the daemon takes no more. */
const REASON_CHARS_MAX = 1_024;

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
  const untilMs = Date.parse(asked.time) + asked.timeout_seconds * 1_000;
  const left = h('p', { class: 'dim' });
  const reason = h('input', { id: `${id}-reason`, type: 'text', maxlength: String(REASON_CHARS_MAX) });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const buttons = [];
  const controls = h('div', { class: 'permission-controls' });
  const answer = (decision) => {
    buttons.forEach((button) => { button.disabled = true; });
    const said = reason.value === '' ? {} : { reason: reason.value };
    send({ ...decision, ...said }).catch((error) => {
      buttons.forEach((button) => { button.disabled = false; });
      problem.hidden = false;
      problem.textContent = toldFirst(error) ?? error.message;
    });
  };
  const offer = (label, decision, look) => {
    const button = h('button', { type: 'button', class: look, onclick: () => answer(decision) }, label);
    buttons.push(button);
    return button;
  };
  const choices = asked.options.length === 0
    ? [offer('Approve', { decision: 'approve' }, 'primary')]
    : asked.options.map((option) => offer(option.label, { decision: 'approve', option: option.id }, ''));
  controls.append(
    h('div', { class: 'field' }, h('label', { for: `${id}-reason` }, 'Reason or answer in words'), reason),
    h('div', { class: 'actions' }, ...choices, offer('Reject', { decision: 'reject' }, '')), problem, left);
  const details = asked.details === undefined || asked.details === null ? ''
    : h('details', {}, h('summary', {}, 'Details'), text(JSON.stringify(asked.details, null, 2), { label: 'Details' }));
  const element = h('section', { class: 'permission', 'aria-labelledby': id },
    h('h2', { id }, 'Asks for permission'), text(asked.title, { label: 'Question' }), details, controls);
  const card = {
    element,
    tick() {
      const leftMs = untilMs - Date.now();
      left.textContent = leftMs > 0 ? `${format.duration(Math.ceil(leftMs / 1_000) * 1_000_000)} left to answer` : 'The time to answer is over.';
    },
    decided(event) {
      controls.replaceChildren(h('p', { class: 'permission-decided' }, verdict(asked, event)));
    },
  };
  card.tick();
  return card;
}

let numbered = 0;

function verdict(asked, event) {
  if (event.type === 'permission_cancelled') return 'Nobody has to answer any more: the turn was cancelled or the execution stopped.';
  const chosen = asked.options.find((option) => option.id === event.option)?.label ?? event.option;
  const what = event.approved ? chosen ?? 'Approved' : 'Rejected';
  const why = event.reason ? `: ${event.reason}` : '';
  return `${what}${why} (${format.decider(event.source)})`;
}

/** Who was first, when somebody else answered before. */
function toldFirst({ problem }) {
  const first = problem?.decision;
  if (typeof first !== 'object' || first === null) return null;
  const what = first.option ?? (first.decision === 'approve' ? 'approved' : 'rejected');
  return `It was answered before, ${format.decider(first.source)}: ${what}${first.reason ? `, ${first.reason}` : ''}.`;
}
