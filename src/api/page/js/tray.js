// What waits for an answer, on every page: one line, and the way to answer without leaving.

import { answerCard } from './answer.js';
import { fill, h, line } from './dom.js';

/** Questions of one dialog. Protects the page; the others are on the page of approvals. */
const CARDS_MAX = 10;

/** Fills `element` with a line about what is pending, if anything is. `wanted(approval)` says which are. */
export function createTray(element, app, wanted) {
  let waiting = [];
  let isOpen = false;

  function draw() {
    const shown = waiting.filter(wanted);
    element.hidden = shown.length === 0;
    if (element.hidden) return fill(element);
    const [first] = shown;
    const others = shown.length - 1;
    return fill(element,
      h('span', { class: 'prompt' }, h('strong', null, 'A run asks: '), line(first.prompt, 160)),
      others ? h('span', { class: 'nowrap' }, others === 1 ? 'and another one' : `and ${others} others`) : null,
      h('button', { type: 'button', onclick: open }, 'Answer'));
  }

  function open() {
    if (isOpen) return;
    isOpen = true;
    const before = document.activeElement;
    const cards = waiting.filter(wanted).slice(0, CARDS_MAX).map((approval) => ({
      key: keyOf(approval),
      card: answerCard(approval, app, { answered: () => app.pending.refresh() }),
    }));
    const dialog = h('dialog', { class: 'wide', 'aria-label': 'What waits for an answer' },
      h('div', { class: 'head' }, h('h2', null, 'What waits for an answer'), h('div', { class: 'actions' },
        h('button', { type: 'button', onclick: () => dialog.close() }, 'Close'))),
      cards.map(({ card }) => card.element));
    const forget = app.pending.subscribe(({ approvals }) => {
      const there = new Set(approvals.map(keyOf));
      for (const { key, card } of cards) if (!there.has(key)) card.gone();
    });
    const leave = () => dialog.close();
    window.addEventListener('hashchange', leave);
    dialog.addEventListener('close', () => {
      isOpen = false;
      forget();
      window.removeEventListener('hashchange', leave);
      for (const { card } of cards) card.close();
      dialog.remove();
      if (before?.isConnected) before.focus();
    });
    document.body.append(dialog);
    dialog.showModal();
  }

  app.pending.subscribe(({ approvals }) => {
    waiting = approvals;
    draw();
  });
  return draw;
}

function keyOf(approval) {
  return `${approval.run_id} ${approval.approval_id}`;
}
