// What conversations and forms work out without a browser: how things ended in words, and the bounds of a schema.

import assert from 'node:assert/strict';
import { decidedElsewhere, timeLeft } from '../../../../src/api/page/js/decision.js';
import { boundsInWords, unmetBounds } from '../../../../src/api/page/js/schema_bounds.js';
import { schemaForm } from '../../../../src/api/page/js/schema_form.js';
import { executionEnd, turnEnd } from '../../../../src/api/page/js/transcript.js';

const turn = { prompt_generation: 3, stop_reason: 'end_turn', undone: false };
assert.equal(turnEnd(turn), 'Turn 3 ended');
assert.equal(turnEnd(turn, 1_500_000), 'Turn 3 ended after 1.50 s');
assert.equal(turnEnd({ ...turn, stop_reason: 'error', error: 'no paper' }), 'Turn 3 ended with an error: no paper');
assert.equal(turnEnd({ ...turn, stop_reason: 'later_word' }), 'Turn 3 ended: later word');
assert.equal(turnEnd({ ...turn, stop_reason: 'toString' }), 'Turn 3 ended: toString');
// What was undone does not read as done.
const undone = turnEnd({ ...turn, stop_reason: 'cancelled', undone: true }, 2_000_000);
assert.equal(undone, 'Turn 3 was cancelled after 2.00 s. It is undone: for the agent it never was. What it did outside stays');

assert.equal(executionEnd({ status: 'stopped', code: 'interrupted', reason: 'interrupted' }), 'The execution stopped (interrupted)');
assert.equal(executionEnd({ status: 'stopped', code: 'cancelled', reason: 'it is late' }), 'The execution stopped (cancelled): it is late');
assert.equal(executionEnd({ status: 'failed', code: 'out_of_memory', message: 'too much' }), 'The execution failed (out of memory): too much');
assert.equal(executionEnd({ status: 'completed', code: 'ok' }), 'The execution completed');

assert.equal(decidedElsewhere({ decision: 'reject', source: 'timeout' }), 'Nobody answered in time: it was rejected.');
assert.equal(decidedElsewhere({ decision: 'approve', source: 'cli' }), 'Somebody was first: it was approved at the command line.');
assert.deepEqual(timeLeft(0), { words: 'The time to answer is over', look: 'bad' });
assert.equal(timeLeft(Date.now() + 30_000).look, 'warn');

const text = (schema) => boundsInWords('string', schema);
assert.equal(text({ minLength: 1, maxLength: 80 }), '1 to 80 characters');
assert.equal(text({ minLength: 1 }), 'at least 1 character');
assert.equal(text({ minLength: 0, maxLength: 4 }), 'at most 4 characters');
assert.equal(text({ minLength: 2, maxLength: 2, format: 'date', pattern: '^(a+)+$' }), 'exactly 2 characters, format date, pattern ^(a+)+$');
assert.equal(boundsInWords('array', { minItems: 1 }), 'at least 1 entry');
assert.equal(boundsInWords('integer', { minimum: 0, maximum: 100 }), '0 to 100');
assert.equal(boundsInWords('object', { minProperties: 1 }), '');
// What is no bound is none, whatever a skill writes there.
assert.equal(text({ minLength: 'one', maxLength: -1, format: 3, pattern: {} }), '');
assert.equal(boundsInWords('integer', { minimum: null, maximum: [] }), '');

assert.equal(unmetBounds('string', { minLength: 2 }, '\u{1f600}'), 'at least 2 characters are expected');
assert.equal(unmetBounds('string', { maxLength: 1 }, '\u{1f600}'), null);
assert.equal(unmetBounds('array', { minItems: 1 }, []), 'at least 1 entry is expected');
assert.equal(unmetBounds('number', { minimum: 0, maximum: 1 }, 1.5), '0 to 1 is expected');
// Bounds that are themselves left out.
const open = { exclusiveMinimum: 0, exclusiveMaximum: 1 };
assert.equal(boundsInWords('number', open), 'more than 0, less than 1');
assert.deepEqual([0, 0.5, 1].map((value) => unmetBounds('number', open, value)), ['more than 0 is expected', null, 'less than 1 is expected']);
assert.equal(boundsInWords('string', open), '');
// A pattern is the daemon's to try.
assert.equal(unmetBounds('string', { pattern: '^(a+)+$' }, 'a'.repeat(100) + '!'), null);
// Numbers that JavaScript cannot hold are compared by their digits.
const most = { maximum: JSON.rawJSON('18446744073709551615') };
assert.equal(boundsInWords('integer', most), 'at most 18446744073709551615');
assert.equal(unmetBounds('integer', most, JSON.rawJSON('18446744073709551615')), null);
assert.equal(unmetBounds('integer', most, JSON.rawJSON('18446744073709551616')), 'at most 18446744073709551615 is expected');

/** As much of an element as a form needs that nobody looks at. */
function element(tag, attributes) {
  return { tag, value: '', dataset: {}, ...attributes, setAttribute() {}, append() {}, addEventListener() {} };
}
const schema = {
  type: 'object',
  required: ['names'],
  properties: {
    names: { type: 'array', minItems: 1, items: { type: 'string', minLength: 2 } },
    age: { type: 'integer', maximum: 150 },
  },
};
const form = (value) => schemaForm(element, schema, value, () => {});
// Whoever only looks at the input as JSON is not held to anything.
assert.deepEqual(form({ names: [] }).read(), { names: [] });
assert.throws(() => form({ names: [] }).read(true), /^Error: names: at least 1 entry is expected$/);
assert.throws(() => form({ names: ['Ada', 'B'] }).read(true), /^Error: names\[1\]: at least 2 characters are expected$/);
assert.throws(() => form({ names: ['Ada'], age: 200 }).read(true), /^Error: age: at most 150 is expected$/);
assert.deepEqual(form({ names: ['Ada'], age: 150 }).read(true), { names: ['Ada'], age: 150 });
