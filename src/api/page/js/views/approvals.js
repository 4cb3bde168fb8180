// What waits for a person, over all runs.

import { CARDS_MAX, createAnswers } from '../answers.js';

export default {
  title: () => 'Approvals',

  mount(root, _params, app) {
    const { fill, h } = app.dom;
    const list = h('div', { class: 'answers' });
    const note = h('div');
    fill(root, h('div', { class: 'head' }, h('h1', null, 'Approvals')), note, list);
    const answers = createAnswers(list, app);
    const forget = app.pending.subscribe(({ approvals, hasMore }) => {
      const waiting = answers.show(approvals);
      fill(note, waiting === 0 ? h('div', { class: 'card empty' }, 'Nothing waits for an answer.') : null,
        waiting > CARDS_MAX || hasMore ? h('div', { class: 'note' }, `The first ${CARDS_MAX} are shown; further ones follow when these are answered.`) : null);
    });
    app.pending.refresh();
    return () => {
      forget();
      answers.close();
    };
  },
};
