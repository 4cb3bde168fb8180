// What happened when, from the events of a run, without a browser.

import assert from 'node:assert/strict';
import { rowsOf, scaleOf, Timeline, waitsOf } from '../../../../src/api/page/js/timeline.js';

const at = (seconds) => new Date(seconds * 1_000).toISOString();
const SECOND = 1_000_000;

/** A timeline of events `[seconds, type, payload]`. */
function lineOf(id, events) {
  const line = new Timeline(id);
  events.forEach(([seconds, type, payload = {}], index) => line.add({ seq: index + 1, time: at(seconds), type, payload, prev: `digest of ${index}` }));
  return line;
}

const spans = (line, now, childOf) => waitsOf(line, now * SECOND, childOf).map(({ start, end, why }) => [start / SECOND, end / SECOND, why]);
const all = { folded: new Set(), childOf: () => null, wanted: () => true };

// Steps are in each other, calls in them, and what comes twice is taken once.
const nested = lineOf('run_a', [
  [0, 'run_started', { skill: 'one' }], [1, 'node_enter', { node_id: 'n1', node_name: 'outer' }], [2, 'node_enter', { node_id: 'n2', node_name: 'inner' }],
  [3, 'tool_call', { call_id: 'tool#1', name: 'search' }], [4, 'tool_result', { call_id: 'tool#1', is_error: true }],
  [5, 'node_exit', { node_id: 'n2', success: true }], [6, 'log', { message: 'said' }], [7, 'node_exit', { node_id: 'n1', success: true }],
  [8, 'run_completed', { status: 'ok' }],
]);
nested.add({ seq: 3, time: at(99), type: 'log', payload: {} });
assert.deepEqual(rowsOf(nested, all).map(({ span, depth }) => [span.label, depth]),
  [['one', 0], ['outer', 1], ['inner', 2], ['search', 3], ['said', 2]]);
assert.equal(rowsOf(nested, all)[3].span.isFailed, true);
assert.equal(nested.last, 8 * SECOND);
// A line's digest is what the next line says.
assert.equal(rowsOf(nested, all)[1].span.call.sha256, 'digest of 2');
assert.deepEqual(rowsOf(nested, { ...all, folded: new Set(['n:n1']) }).map(({ span }) => span.label), ['one', 'outer']);

// Steps may be in each other as deep as a skill likes.
const deep = lineOf('run_d', [[0, 'run_started', { skill: 'deep' }], ...Array.from({ length: 60 }, (_, step) => [step, 'node_enter', { node_id: `n${step}` }])]);
assert.equal(rowsOf(deep, all).length, 61);

// A question waits until it is answered, and after a rejection nothing failed.
const asked = [[0, 'run_started', { skill: 'asks' }], [1, 'approval_request', { approval_id: 'approval#1', prompt: 'Yes?' }]];
assert.deepEqual(spans(lineOf('run_q', asked), 5), [[1, 5, 'approval']]);
const answered = lineOf('run_q', [...asked, [3, 'approval_response', { approval_id: 'approval#1', approved: false }], [4, 'run_completed', { status: 'ok' }]]);
assert.deepEqual(spans(answered, 9), [[1, 3, 'approval']]);
const [, question] = rowsOf(answered, all);
assert.deepEqual([question.span.verdict, question.span.isFailed], ['rejected', false]);

// While it is suspended it waits, and from where it was cut off nobody worked.
const suspended = lineOf('run_s', [...asked, [2, 'run_completed', { status: 'suspended', duration_micros: 5 }]]);
assert.deepEqual(spans(suspended, 10), [[1, 10, 'approval']]);
const cut = lineOf('run_c', [[0, 'run_started', {}], [4, 'log', {}], [15, 'run_completed', { status: 'interrupted' }]]);
assert.deepEqual(spans(cut, 99), [[4, 15, 'cut off']]);
const stopped = lineOf('run_c', [[0, 'run_started', {}], [4, 'log', {}], [15, 'run_completed', { status: 'interrupted', duration_micros: 9 }], [20, 'run_resumed', {}]]);
assert.deepEqual(spans(stopped, 99), [[15, 20, 'interrupted']]);
assert.equal(stopped.attempts.length, 2);

// A timer has a row and a wait; a look at a clock has neither.
const timed = lineOf('run_t', [[0, 'run_started', { skill: 't' }], [3, 'timer', { poll: 1, duration_micros: 2 * SECOND }], [3, 'timer', { look: 1, duration_micros: 7 }]]);
assert.deepEqual(spans(timed, 3), [[1, 3, 'timer']]);
assert.deepEqual(rowsOf(timed, all).map(({ span }) => [span.kind, (span.end ?? 0) / SECOND]), [['run', 0], ['timer', 3]]);

// A run waits while one inside of it does, within the call; ledgers that claim to be in each other end the search.
const child = lineOf('run_child', [[2, 'run_started', {}], ...asked.slice(1).map(([, ...rest]) => [3, ...rest]), [6, 'approval_response', { approval_id: 'approval#1', approved: true }],
  [7, 'tool_call', { call_id: 'skill#1', kind: 'skill', name: 'parent', child_run_id: 'run_p' }]]);
const parent = lineOf('run_p', [[0, 'run_started', {}], [2, 'tool_call', { call_id: 'skill#1', kind: 'skill', name: 'child', child_run_id: 'run_child' }],
  [5, 'tool_result', { call_id: 'skill#1' }]]);
const known = (id) => ({ run_child: child, run_p: parent })[id] ?? null;
assert.deepEqual(spans(parent, 9, known), [[3, 5, 'approval']]);
assert.deepEqual(rowsOf(parent, { ...all, childOf: known }).map(({ span, depth }) => [span.kind, depth]),
  [['run', 0], ['skill', 1], ['approval', 2], ['skill', 2]]);

// What models cost adds up; a price below nothing is none.
const paid = lineOf('run_m', [[0, 'run_started', {}], [1, 'llm_call', { call_id: 'llm#1', phase: 'call', model: 'm' }],
  [2, 'llm_call', { call_id: 'llm#1', phase: 'result', cost_usd: 0.25 }], [3, 'llm_call', { model: 'guest', cost_usd: 0.5 }], [4, 'llm_call', { model: 'guest', cost_usd: -1 }]]);
assert.deepEqual([paid.cost, paid.modelCalls], [0.75, 3]);

// Waits are shortened, and what is outside is outside.
const even = scaleOf(0, 10, []);
assert.deepEqual([even(0), even(5), even(10), even(20)], [0, 50, 100, 200]);
const short = scaleOf(0, 100, [{ start: 10, end: 90 }]);
assert.ok(short(10) > 45 && short(90) < 55, `${short(10)} ${short(90)}`);
// Names of types and members that every object has are no types of events.
const odd = lineOf('run_o', [[0, 'run_started', {}], [1, 'constructor', {}], [2, '__proto__', {}], [3, 'toString', {}]]);
assert.equal(rowsOf(odd, all).length, 4);
