// What a person can do with a run: each asks first, and none acts when the view was left meanwhile.

import { h } from './dom.js';
import { isBlob } from './timeline.js';
import { ask } from './value.js';

/**
 * `isShown()` says whether the view is still there, `goesOn()` is called when the run was resumed.
 * @returns {{cancel: Function, resume: Function, resumeFrom: Function, again: Function}}
 */
export function runActions(id, app, { isShown, goesOn }) {
  const path = `/api/agent/runs/${encodeURIComponent(id)}`;

  /** Asks, then does it; what came of it, or `null` when it was not done or nobody waits for it any more. */
  async function confirmed(question, work) {
    const data = await ask(question);
    if (!data || !isShown()) return null;
    try {
      const done = await work(data);
      return isShown() ? done ?? true : null;
    } catch (error) {
      app.fail(error);
      return null;
    }
  }

  const ambiguous = () => h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'retry' }), 'Make calls again that may have had their effect');

  return {
    async cancel() {
      const question = { title: 'Cancel this run?', body: h('p', null, 'It ends as cancelled, with the runs that it asked for. What it did already stays done.'), yes: 'Cancel the run', isDanger: true };
      if (await confirmed(question, () => app.api.post(`${path}/cancel`))) app.say('The run is being cancelled');
    },

    async resume() {
      const question = { title: 'Resume this run?', body: [h('p', null, 'It is run again from its beginning, is told what is on record, and goes on where that ends.'), ambiguous()], yes: 'Resume' };
      if (!await confirmed(question, (data) => app.api.post(`${path}/resume`, { retry_ambiguous: data.has('retry') }))) return;
      app.say('The run goes on');
      goesOn();
    },

    async resumeFrom(point) {
      const question = { title: 'Begin a new run here?', body: [h('p', null, 'A new run repeats this one up to ', h('code', null, point), ' and goes on from there. This one stays as it is.'), ambiguous()], yes: 'Begin it' };
      const done = await confirmed(question, (data) => app.api.post(`${path}/resume`, { from_node: point, retry_ambiguous: data.has('retry') }));
      if (done) app.go(`#/runs/${done.run_id}`);
    },

    async again({ skill, input }) {
      const question = { title: 'Run it again?', body: h('p', null, 'A new run of the skill begins, with the same input. Nothing of this one is taken over.'), yes: 'Run it again' };
      const done = await confirmed(question, async () => {
        const given = isBlob(input) ? await (await app.api.blob(id, input.blob)).text() : JSON.stringify(input ?? {});
        // As it was spelled.
        const body = `{"skill_name":${JSON.stringify(skill)},"input":${given}}`;
        return app.api.startRun(body);
      });
      if (done) app.go(`#/runs/${done.run_id}`);
    },
  };
}
