// What waits for a person, over all runs.

import { CARDS_MAX, createAnswers } from '../answers.js';

/** Characters of why questions cannot be read. */
const NOTE_CHARS_MAX = 300;

export default {
  title: () => 'Approvals',

  mount(root, _params, app) {
    const { fill, h, line } = app.dom;
    const list = h('div', { class: 'answers' });
    const note = h('div');
    fill(root, h('div', { class: 'head' }, h('h1', null, 'Approvals')), note, list);
    const answers = createAnswers(list, app);
    fill(note, h('p', { class: 'dim' }, 'Reading …'));
    const forget = app.pending.subscribe(({ approvals, hasMore, error = null }) => {
      const waiting = answers.show(approvals);
      if (error !== null) return fill(note, h('p', { class: 'bad' }, `Questions cannot be read: ${line(error.message, NOTE_CHARS_MAX)}.`));
      fill(note, waiting === 0 ? h('div', { class: 'card empty' }, 'Nothing waits for an answer.') : null,
        waiting > CARDS_MAX || hasMore ? h('div', { class: 'note' }, `The first ${CARDS_MAX} are shown; further ones follow when these are answered.`) : null);
      return undefined;
    });
    app.pending.refresh();
    return () => {
      forget();
      answers.close();
    };
  },
};
