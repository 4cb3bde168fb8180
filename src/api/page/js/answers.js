// Questions that wait for a person, as cards in one place. A card that somebody has touched stays until the place is
// left, and says what became of its question.

import { answerCard } from './answer.js';

/** Cards that one place has of questions that wait. Protects the page from runs that ask a thousand things. */
export const CARDS_MAX = 100;

function keyOf(runId, approvalId) {
  return `${runId} ${approvalId}`;
}

/**
 * Keeps cards in `element`. `wanted(approval)` says which questions belong there, `hasRun(approval)` whether a card
 * leads to its run.
 */
export function createAnswers(element, app, { wanted = () => true, hasRun = () => true, cardsMax = CARDS_MAX } = {}) {
  const cards = new Map();

  function add(key, approval) {
    const card = answerCard(approval, app, { hasRun: hasRun(approval) });
    cards.set(key, card);
    element.append(card.element);
  }

  function remove(key, card) {
    card.close();
    card.element.remove();
    cards.delete(key);
  }

  const unsubscribe = app.hub.subscribe({
    on(type, { run_id: runId, payload }) {
      if (type !== 'approval_response') return;
      const { approval_id: approvalId, approved, reason, source, option } = payload;
      cards.get(keyOf(runId, approvalId))?.decided({
        decision: approved ? 'approve' : 'reject', reason: typeof reason === 'string' ? reason : '', source, option,
      });
    },
  });

  return {
    /** Takes all questions that wait, over all runs; returns how many of them belong here. */
    show(approvals) {
      const waiting = new Map(approvals.filter(wanted).map((approval) => [keyOf(approval.run_id, approval.approval_id), approval]));
      for (const [key, approval] of [...waiting].slice(0, cardsMax)) {
        if (cards.has(key)) cards.get(key).open();
        else add(key, approval);
      }
      for (const [key, card] of cards) {
        if (waiting.has(key)) continue;
        if (card.isTouched) card.gone();
        else remove(key, card);
      }
      return waiting.size;
    },
    close() {
      unsubscribe();
      for (const [key, card] of cards) remove(key, card);
    },
  };
}
