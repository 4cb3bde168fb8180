// What the page works out without a browser: figures, quantiles, and what a JSON Schema asks for.

import assert from 'node:assert/strict';
import { learn, now as daemonNow } from '../../../../src/api/page/js/clock.js';
import { cutAt, stretchesOf, visible } from '../../../../src/api/page/js/dom.js';
import { ago, bytes, cost, duration } from '../../../../src/api/page/js/format.js';
import { buckets, parseMetrics, quantile, rise, sum } from '../../../../src/api/page/js/metrics.js';
import { siblingsOf } from '../../../../src/api/page/js/rows.js';
import { filtersOf, fits, fragmentOf, isFound } from '../../../../src/api/page/js/run_filters.js';
import { schemaForm } from '../../../../src/api/page/js/schema_form.js';
import { fits as fitsSchema, kindOf, resolve } from '../../../../src/api/page/js/schema_json.js';

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

assert.deepEqual([86_400e6, 90_000e6, 120e6, 61e6, 0].map(duration), ['1 d', '1 d 1 h', '2 min', '1 min 1 s', '0 µs']);

// What cannot be seen is an escape, and no text looks like it that has none.
const looks = ['\u202e', '\\u{202e}', '\\\u202e', '\\\\u{202e}', '\\n'].map(visible);
assert.deepEqual(looks, ['\\u{202e}', '\\\\u{202e}', '\\\\\\u{202e}', '\\\\\\\\u{202e}', '\\n']);
assert.equal(new Set(looks).size, looks.length);
// Nothing comes apart that is one character, as far as that has an end.
assert.equal(cutAt('😀😀', 3), 2);
assert.equal(cutAt('e\u0301e\u0301', 3), 2);
assert.equal(cutAt('abc', 2), 2);
assert.equal(cutAt(`a${'\u0301'.repeat(1_000)}`, 500), 500);
// A long text is appended whole, as blocks only where these end with their lines.
for (const long of ['x'.repeat(300_000), '\n'.repeat(30_000), `${'a'.repeat(9_000)}\n${'b\n'.repeat(30_000)}c`, '😀'.repeat(100_000)]) {
  let shown = '';
  for (let next = stretchesOf(long, 0); next.length > 0; next = stretchesOf(long, shown.length)) {
    for (const { start, end, isLines } of next) {
      assert.equal(start, shown.length);
      assert.ok(!isLines || (start === 0 || long[start - 1] === '\n') && (end === long.length || long[end - 1] === '\n'));
      assert.ok(long.slice(start, end).isWellFormed());
      shown += long.slice(start, end);
    }
  }
  assert.ok(shown === long);
}
const endless = 'y'.repeat(3_000_000);
let reached = 0;
for (let next = stretchesOf(endless, 0); next.length > 0; next = stretchesOf(endless, reached)) reached = next.at(-1).end;
assert.equal(reached, 2_000_000);

// Of each row it is known which one it is of how many that are below the same one.
const depths = [0, 1, 2, 1, 0, 1].map((depth) => ({ depth }));
assert.deepEqual(siblingsOf(depths).map(({ place, family }) => `${place}/${family.count}`), ['1/2', '1/2', '1/1', '2/2', '2/2', '1/1']);

const filters = filtersOf(new URLSearchParams('status=ok&skill=a&since=1h&q=Boom'));
assert.equal(fragmentOf(filters), '#/runs?status=ok&skill=a&since=1h&q=Boom');
const row = { run_id: 'run_1', status: 'ok', skill: 'a.b', started_at: new Date(daemonNow() - 60_000).toISOString(), error: 'a boom' };
assert.ok(fits(row, filters) && isFound(row, filters));
assert.ok(!fits({ ...row, status: 'error' }, filters) && !fits({ ...row, skill: 'ab' }, filters));
assert.ok(!fits({ ...row, started_at: '2026-01-01T00:00:00Z' }, filters) && !isFound({ ...row, error: null }, filters));

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
assert.ok(!fitsSchema('integer', {}, JSON.rawJSON('18446744073709551615')));
assert.ok(!fitsSchema('object', {}, JSON.rawJSON('1')) && !fitsSchema('object', {}, [1]) && fitsSchema('object', {}, { a: 1 }));
assert.ok(!fitsSchema('enum', { enum: ['a'] }, 'b') && fitsSchema('boolean', {}, true) && fitsSchema('string', {}, undefined));

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

// No figure has an exponent.
assert.deepEqual([999.6, 999_600, 59_999_000].map(duration), ['1000 µs', '1000 ms', '60.0 s']);
assert.deepEqual([1_023, 1_024, 1_040_000].map(bytes), ['1023 B', '1.00 KiB', '1016 KiB']);
assert.deepEqual([0, 0.0000001, 0.0002, 1.5].map(cost), ['$0', '< $0.00001', '$0.00020', '$1.50']);
