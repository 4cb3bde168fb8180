// What waits for an answer, on every page: one line, and the way to answer without leaving.

import { createAnswers } from './answers.js';
import { fill, h, line } from './dom.js';

/** Questions of one dialog. Protects the page; the others are on the page of approvals. */
const CARDS_MAX = 10;
/** Characters of a question that stand in the line. */
const PROMPT_CHARS_MAX = 160;

/** Keeps in `element` a line about what is pending, if anything is. `wanted(approval)` says which are. */
export function createTray(element, app, wanted) {
  let waiting = [];
  let isOpen = false;
  const prompt = h('span');
  const rest = h('span', { class: 'nowrap' });
  const button = h('button', { type: 'button', onclick: open }, 'Answer');
  fill(element, h('span', { class: 'prompt' }, h('strong', null, 'A run asks: '), prompt), rest, button);

  function draw() {
    const shown = waiting.filter(wanted);
    element.hidden = shown.length === 0;
    if (element.hidden) return;
    const others = shown.length - 1;
    fill(prompt, line(shown[0].prompt, PROMPT_CHARS_MAX));
    fill(rest, others === 0 ? null : others === 1 ? 'and another one' : `and ${others} others`);
  }

  function open() {
    if (isOpen) return;
    isOpen = true;
    const list = h('div');
    const answers = createAnswers(list, app, { wanted, cardsMax: CARDS_MAX });
    const dialog = h('dialog', { class: 'wide', 'aria-label': 'What waits for an answer' },
      h('div', { class: 'head' }, h('h2', null, 'What waits for an answer'), h('div', { class: 'actions' },
        h('button', { type: 'button', onclick: () => dialog.close() }, 'Close'))),
      list);
    const forget = app.pending.subscribe(({ approvals }) => answers.show(approvals));
    const leave = () => dialog.close();
    window.addEventListener('hashchange', leave);
    dialog.addEventListener('close', () => {
      isOpen = false;
      forget();
      window.removeEventListener('hashchange', leave);
      answers.close();
      dialog.remove();
      // Where nothing waits any more, there is no button to go back to.
      const before = element.hidden ? document.getElementById('main') : button;
      before.focus({ preventScroll: true });
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
