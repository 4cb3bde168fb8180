// What it takes a whole ledger to say of a run: why it ended, whether the ledger is in order, whether the run can be done again.

import { whileBusy } from './busy.js';
import { fill, h, text } from './dom.js';
import * as format from './format.js';

/** Events up to which a ledger without large values is verified without being asked. Protects the disk of the daemon. */
const CHECKED_EVENTS_MAX = 10_000;
/** Milliseconds until an explanation that could not be had is asked for again. Protects the daemon. */
const AGAIN_MS = 5_000;
/** What the daemon says of a ledger that is as it should be. */
const GOOD = new Set(['ok', 'running', 'unchained']);
const REPLAYED = {
  same: 'The skill does the same again.',
  same_so_far: 'The skill does the same, as far as the record goes.',
  diverged: 'The skill does something else now.',
};

/** What is asked of the run at `path`; `changed()` is called when an explanation has come, `isShown()` says whether somebody looks. */
export function createRecord(path, app, { changed, isShown }) {
  const verdict = h('p', { role: 'status', class: 'verdict' });
  const replayed = h('div', { role: 'status' });
  const button = (name, work) => h('button', { type: 'button', onclick: ({ currentTarget }) => whileBusy(currentTarget, work) }, name);
  const record = {
    explanation: null,
    verification: h('div', null, verdict, button('Verify', verify)),
    replay: h('div', null, h('p', { class: 'dim' }, 'The skill is run again and told what is on record. Nothing is called, asked or written.'),
      replayed, button('Replay', replay)),
    ended,
    goesOn,
  };
  let asked = null;

  async function verify() {
    const version = asked;
    fill(verdict, 'Reading the ledger …');
    try {
      const found = await app.api.get(`${path}/verify`);
      if (asked === version) fill(verdict, verified(found));
    } catch (error) {
      if (asked === version) fill(verdict, `It cannot be checked: ${error.message}`);
    }
  }

  async function replay() {
    fill(replayed, 'Running it again …');
    try {
      const found = await app.api.post(`${path}/replay`);
      fill(replayed, compared(found));
    } catch (error) {
      fill(replayed, h('p', { class: 'bad' }, `It cannot be done again: ${error.message}`), error.hint ? h('p', null, error.hint) : null);
    }
  }

  /** The run is at its end, or nobody goes on with it: `version` tells this end from others, `isQuick` whether there are no large values. */
  async function ended(version, { isWell, isQuick, events }) {
    if (asked === version) return;
    asked = version;
    record.explanation = null;
    if (isQuick && events <= CHECKED_EVENTS_MAX) verify();
    else fill(verdict, 'It was not verified yet.');
    if (!isWell) await explain(version);
  }

  async function explain(version) {
    try {
      const explanation = await app.api.get(`${path}/explain`);
      if (asked !== version) return;
      record.explanation = explanation;
      changed();
    } catch {
      // The end that is on record is shown without; it is asked for again as long as somebody looks.
      setTimeout(() => { if (asked === version && isShown()) explain(version); }, AGAIN_MS);
    }
  }

  /** What was said of its end is so no longer. */
  function goesOn() {
    if (asked === null) return;
    asked = null;
    record.explanation = null;
    fill(verdict);
  }

  return record;
}

/** What a ledger was found to be. */
function verified({ verdict, head, blobs, chained, problem }) {
  return [h('span', { class: GOOD.has(verdict) ? 'good' : 'bad' }, h('strong', null, format.words(verdict))),
    `: ${format.count(head.seq)} lines${blobs ? `, ${format.count(blobs)} large values` : ''}${chained ? ', chained' : ''}`,
    problem ? [' – ', problem] : null];
}

/** How a run that was done again compares with its record. */
function compared(found) {
  return [
    h('p', { class: found.verdict === 'diverged' ? 'bad' : 'good' }, h('strong', null, REPLAYED[found.verdict] ?? format.words(found.verdict))),
    found.event ? h('p', null, `Event ${found.event} of ${format.count(found.events)} is another one.`) : null,
    found.recorded ? [h('h3', null, 'On record'), text(found.recorded, { label: 'On record' })] : null,
    found.now ? [h('h3', null, 'Now'), text(found.now, { label: 'Now' })] : null,
    found.next ? [h('h3', null, 'Next'), text(found.next, { label: 'What comes next' })] : null,
    found.runs_inside ? h('p', { class: 'dim' }, `${format.count(found.runs_inside)} runs inside it have ledgers of their own.`) : null,
    found.folders_missing.length ? h('p', { class: 'dim' }, 'It had no ', h('code', null, found.folders_missing.join(', ')), ': skillrun runs replay --grant gives a folder.') : null];
}
