// What waits for a person, over all runs.

import { answerCard } from '../answer.js';

/** Cards that are there at once. Protects the page from runs that ask a thousand things. */
const CARDS_MAX = 100;

export default {
  title: () => 'Approvals',

  mount(root, _params, app) {
    const { h } = app;
    const cards = new Map();
    const list = h('div', { class: 'answers' });
    const note = h('div');
    app.dom.fill(root, h('div', { class: 'head' }, h('h1', null, 'Approvals')), note, list);
    const keyOf = (approval) => `${approval.run_id} ${approval.approval_id}`;

    function show({ approvals, hasMore }) {
      const there = new Set(approvals.map(keyOf));
      for (const approval of approvals.slice(0, CARDS_MAX)) {
        if (cards.has(keyOf(approval))) continue;
        const card = answerCard(approval, app, { answered: () => app.pending.refresh() });
        cards.set(keyOf(approval), card);
        list.append(card.element);
      }
      for (const [key, card] of cards) {
        if (there.has(key)) continue;
        // Whoever is just writing a reason is told why it is of no use any more.
        if (card.isTouched) card.gone();
        else {
          card.close();
          card.element.remove();
          cards.delete(key);
        }
      }
      const rest = approvals.length - CARDS_MAX;
      app.dom.fill(note, approvals.length === 0 ? h('div', { class: 'card empty' }, 'Nothing waits for an answer.') : null,
        rest > 0 || hasMore ? h('div', { class: 'note' }, `The first ${CARDS_MAX} are shown; further ones follow when these are answered.`) : null);
    }

    function heard(type, event) {
      if (type !== 'approval_response') return;
      const card = cards.get(`${event.run_id} ${event.payload?.approval_id}`);
      if (!card?.isTouched || card.element.querySelector('.outcome').firstChild) return;
      const { approved, reason, source, option } = event.payload;
      card.decided({ decision: approved ? 'approve' : 'reject', reason: typeof reason === 'string' ? reason : '', source, option });
    }

    const forget = app.pending.subscribe(show);
    const unsubscribe = app.hub.subscribe({ on: heard });
    app.pending.refresh();
    return () => {
      forget();
      unsubscribe();
      for (const card of cards.values()) card.close();
    };
  },
};
