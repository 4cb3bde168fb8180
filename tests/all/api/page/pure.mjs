// What the page works out without a browser: figures, quantiles, and what a JSON Schema asks for.

import assert from 'node:assert/strict';
import { learn, now as daemonNow } from '../../../../src/api/page/js/clock.js';
import { ago } from '../../../../src/api/page/js/format.js';
import { buckets, parseMetrics, quantile, rise, sum } from '../../../../src/api/page/js/metrics.js';
import { schemaForm } from '../../../../src/api/page/js/schema_form.js';
import { fits, kindOf, resolve } from '../../../../src/api/page/js/schema_json.js';

const date = (aheadMs) => learn(new Response('', { headers: { Date: new Date(Date.now() + aheadMs).toUTCString() } }));
const aheadMs = () => daemonNow() - Date.now();
date(1_500);
assert.equal(aheadMs(), 0);
// The daemon's clock is an hour ahead, and what it records now is no hour to come.
date(3_600_000);
assert.ok(Math.abs(aheadMs() - 3_600_000) < 2_000);
assert.match(ago(new Date(Date.now() + 3_540_000).toISOString()), /^(1 min|5\d s) ago$/);
learn(new Response(''));
assert.ok(aheadMs() > 3_000_000);
date(0);
assert.ok(Math.abs(aheadMs()) < 2_000);

const TEXT = `# HELP skillrun_runs_ended_total Ends
# TYPE skillrun_runs_ended_total counter
skillrun_runs_ended_total{status="ok",code="ok"} 3
skillrun_runs_ended_total{status="error",code="a\\"b\\\\c\\nd"} 1
skillrun_runs_going_on 2
skillrun_wait_seconds_bucket{le="0.1"} 1
skillrun_wait_seconds_bucket{le="0.5"} 3
skillrun_wait_seconds_bucket{le="+Inf"} 4
other_seconds 1e-3
not a sample
`;
const now = parseMetrics(TEXT);
assert.equal(sum(now, 'runs_ended_total'), 4);
assert.equal(sum(now, 'runs_ended_total', { status: 'ok' }), 3);
assert.equal(sum(now, 'runs_ended_total', { status: 'none' }), null);
assert.equal(now.get('runs_ended_total')[1].labels.code, 'a"b\\c\nd');
assert.equal(sum(now, 'other_seconds'), 0.001);
assert.equal(sum(now, 'absent'), null);

const counted = buckets(now, null, 'wait_seconds');
assert.deepEqual(counted, [{ bound: 0.1, count: 1 }, { bound: 0.5, count: 2 }, { bound: Infinity, count: 1 }]);
assert.ok(Math.abs(quantile(counted, 0.5) - 0.3) < 1e-9);
// Nothing is known of what is beyond the last bound but that it is there.
assert.equal(quantile(counted, 1), 0.5);
assert.equal(quantile(buckets(now, now, 'wait_seconds'), 0.5), null);
assert.equal(rise(5, 3), 2);
// A process that was started anew counts from zero.
assert.equal(rise(2, 3), 2);
assert.equal(rise(null, 3), null);
const less = parseMetrics(TEXT.replace('le="+Inf"} 4', 'le="+Inf"} 3').replace('le="0.5"} 3', 'le="0.5"} 2'));
assert.equal(buckets(less, now, 'wait_seconds').reduce((all, { count }) => all + count, 0), 3);

const root = {
  $defs: {
    name: { type: 'string', description: 'inner' },
    'a/b~c': { type: 'boolean' },
    loop: { $ref: '#/$defs/loop' },
  },
};
assert.deepEqual(resolve(root, { $ref: '#/$defs/name', description: 'outer' }), { type: 'string', description: 'outer' });
assert.deepEqual(resolve(root, { $ref: '#/$defs/a~1b~0c' }), { type: 'boolean' });
assert.equal(kindOf(resolve(root, { anyOf: [{ $ref: '#/$defs/name' }, { type: 'null' }] })), 'string');
// What leads nowhere, round in circles, or elsewhere, is asked for as JSON.
for (const $ref of ['#/$defs/none', '#/$defs/loop', '#/constructor', 'other.json']) {
  assert.equal(kindOf(resolve(root, { $ref })), 'json', $ref);
}
assert.equal(kindOf(resolve(root, true)), 'json');
assert.equal(kindOf({ type: ['integer', 'null'] }), 'integer');
assert.equal(kindOf({ type: ['integer', 'string'] }), 'json');
assert.equal(kindOf({ enum: ['a', 1, null] }), 'json');
assert.equal(kindOf({ enum: ['a', 1] }), 'enum');
assert.equal(kindOf({ type: 'object' }), 'json');
assert.equal(kindOf({ type: 'object', properties: {} }), 'object');
assert.ok(!fits('integer', {}, JSON.rawJSON('18446744073709551615')));
assert.ok(!fits('object', {}, JSON.rawJSON('1')) && !fits('object', {}, [1]) && fits('object', {}, { a: 1 }));
assert.ok(!fits('enum', { enum: ['a'] }, 'b') && fits('boolean', {}, true) && fits('string', {}, undefined));

/** As much of an element as a form needs that nobody looks at. */
class Element {
  constructor(tag, attributes, children) {
    Object.assign(this, { tag, value: '', dataset: {}, children: children.flat(Infinity) }, attributes);
  }

  setAttribute() {}

  append(...children) {
    this.children.push(...children);
    const chosen = this.tag === 'select' ? children.find((one) => one.selected) : undefined;
    if (chosen !== undefined) this.value = chosen.value;
  }

  addEventListener() {}

  get size() {
    return this.children.reduce((all, one) => all + (one.size ?? 0), 1);
  }
}
const element = (tag, attributes, ...children) => new Element(tag, attributes, children);
const form = (schema, value) => schemaForm(element, schema, value, () => {});
const schema = {
  type: 'object',
  required: ['verb'],
  properties: {
    verb: { const: 'send' },
    to: { type: 'object', required: ['number'], properties: { number: { type: 'integer' } } },
    words: { type: 'array', items: { type: 'string' } },
  },
};
// What is required inside of what nobody touched is not.
assert.deepEqual(form(schema).read(), { verb: 'send' });
// Members that there is no field for are kept.
const given = { verb: 'send', to: { number: 3, more: 1 }, words: ['a'], rest: null };
assert.deepEqual(form(schema, given).read(), given);
assert.throws(() => form(schema, { verb: 'send', to: {} }).read(), /^Error: to\.number: a whole number is expected/);
// What does not fit its field is shown as JSON, and is what it was.
assert.deepEqual(form(schema, { verb: 'send', to: 'me', words: [1] }).read(), { verb: 'send', to: 'me', words: [1] });
// A schema that grows by itself has an end.
const grows = { type: 'object', properties: Object.fromEntries([...'abcdefghijklmnopqrstuvwxyz'].map((name) => [name, { $ref: '#' }])) };
assert.ok(form(grows).element.size < 5_000);
