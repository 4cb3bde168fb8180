// How the daemon is: what it does now and did in the last minutes, from its figures.

import { buckets, parseMetrics, quantile, rise, sum } from '../metrics.js';
import { chart } from '../chart.js';
import { visible } from '../dom.js';

/** Milliseconds between two looks. */
const LOOK_INTERVAL_MS = 5_000;
const LOOK_SECONDS = LOOK_INTERVAL_MS / 1_000;
/** Looks that are kept: a quarter of an hour. Protects the memory of a page that stays open. */
const LOOKS_MAX = 180;
const MICROS_PER_SECOND = 1_000_000;
const MILLIS_PER_MINUTE = 60_000;
const MEDIAN = 0.5;
const NEARLY_ALL = 0.95;

// Kept while other views are shown, so that whoever comes back sees what was.
const looks = [];

export default {
  title() {
    return 'Health';
  },
  mount(root, _params, app) {
    const { h } = app;
    const aborting = new AbortController();
    const facts = h('div', { class: 'tiles' });
    const charts = h('div', { class: 'charts' });
    const ended = h('div', {});
    const state = h('p', { class: 'dim' }, 'Loading …');
    root.append(h('h1', {}, 'Health'), state, facts, charts,
      h('section', { class: 'card', 'aria-labelledby': 'ends' }, h('h2', { id: 'ends' }, 'How runs ended'), ended));
    let newest = null;
    let questions = null;
    const drawTiles = () => { if (newest !== null) facts.replaceChildren(...tiles(app, newest, questions)); };
    const look = async () => {
      newest = parseMetrics(await app.api.text('/metrics', { signal: aborting.signal }));
      remember(newest);
      state.textContent = SINCE;
      drawTiles();
      charts.replaceChildren(...drawn(app));
      ended.replaceChildren(ends(app, newest));
    };
    let isLooking = false;
    const lookOnce = async () => {
      if (isLooking || document.hidden) return;
      isLooking = true;
      try {
        await look();
      } catch (error) {
        if (error.name !== 'AbortError') state.textContent = failureInWords(error);
      } finally {
        isLooking = false;
      }
    };
    lookOnce();
    const interval = setInterval(lookOnce, LOOK_INTERVAL_MS);
    const unsubscribe = app.pending.subscribe((state) => {
      questions = state;
      drawTiles();
    });
    return () => {
      aborting.abort();
      unsubscribe();
      clearInterval(interval);
    };
  },
};

const SINCE = `Counts and times begin when the daemon was started; the charts show at most the last ${
  Math.round((LOOKS_MAX * LOOK_INTERVAL_MS) / MILLIS_PER_MINUTE)} minutes, while this page is open.`;

function failureInWords(error) {
  if (error.status === 401) return 'No figures: the daemon gives them only to those who have its token, and this page has none.';
  return `No figures: ${visible(error.message)}`;
}

function remember(samples) {
  const atMs = performance.now();
  // What happened while nobody looked happened in no five seconds that are shown.
  const isNext = looks.length > 0 && atMs - looks.at(-1).atMs < 2 * LOOK_INTERVAL_MS;
  const before = isNext ? looks.at(-1).samples : null;
  const since = (name, wanted) => (before === null ? null : rise(sum(samples, name, wanted), sum(before, name, wanted)));
  const shares = (name) => {
    const counted = buckets(samples, before, name);
    return before === null ? [null, null] : [quantile(counted, MEDIAN), quantile(counted, NEARLY_ALL)];
  };
  looks.push({
    samples,
    atMs,
    going: sum(samples, 'runs_going_on'),
    queued: sum(samples, 'runs_queued'),
    suspended: sum(samples, 'runs_suspended'),
    instances: sum(samples, 'engine_instances'),
    executions: sum(samples, 'executions'),
    ended: since('runs_ended_total'),
    ok: since('runs_ended_total', { status: 'ok' }),
    requests: since('http_requests_total'),
    memory: sum(samples, 'process_resident_memory_bytes'),
    run: shares('run_duration_seconds'),
    queue: shares('run_queued_seconds'),
    sync: shares('ledger_sync_seconds'),
  });
  // Of those before, the drawn figures are enough.
  if (looks.length > 1) looks.at(-2).samples = null;
  if (looks.length > LOOKS_MAX) looks.shift();
}

function drawn(app) {
  const { format } = app;
  const seconds = (value) => (value === null ? '–' : format.duration(value * MICROS_PER_SECOND));
  const line = (name, of) => ({ name, values: looks.map(of) });
  const pair = (of) => [line('median', (look) => of(look)[0]), line('95 %', (look) => of(look)[1])];
  return [
    chart(app, 'Runs', format.count, [
      line('going on', (look) => look.going), line('queued', (look) => look.queued), line('suspended', (look) => look.suspended),
    ], LOOKS_MAX),
    chart(app, `Runs that ended, in ${LOOK_SECONDS} s`, format.count, [line('all', (look) => look.ended), line('ok', (look) => look.ok)], LOOKS_MAX),
    chart(app, 'Time a run worked', seconds, pair((look) => look.run), LOOKS_MAX),
    chart(app, 'Time in the queue', seconds, pair((look) => look.queue), LOOKS_MAX),
    chart(app, 'Sync of a ledger', seconds, pair((look) => look.sync), LOOKS_MAX),
    chart(app, 'Instances and executions', format.count, [
      line('instances', (look) => look.instances), line('executions', (look) => look.executions),
    ], LOOKS_MAX),
    chart(app, `Requests, in ${LOOK_SECONDS} s`, format.count, [line('requests', (look) => look.requests)], LOOKS_MAX),
    chart(app, 'Memory', format.bytes, [line('resident', (look) => look.memory)], LOOKS_MAX),
  ];
}

function tiles({ h, format }, samples, questions) {
  const all = (name, wanted) => sum(samples, name, wanted);
  const sync = buckets(samples, null, 'ledger_sync_seconds');
  const run = buckets(samples, null, 'run_duration_seconds');
  const seconds = (value) => format.duration(value === null ? null : value * MICROS_PER_SECOND);
  const entries = [
    ['Ledgers', all('ledger_available') === 1 ? 'writable' : 'cannot be written', all('ledger_available') === 1],
    ['Draining', all('draining') === 1 ? 'yes' : 'no', all('draining') !== 1],
    ['Runs', `${format.count(all('runs_going_on'))} going on`],
    ['Queue', `${format.count(all('runs_queued'))} waiting`],
    ['Refused, no room', format.count(all('runs_refused_total'))],
    ['Approvals', waiting(format, questions)],
    ['Pool', `${format.count(all('engine_instances'))} of ${format.count(all('engine_instances_max'))} instances`],
    ['Components', format.count(all('engine_components'))],
    ['Executions', `${format.count(all('executions'))} live`],
    ['Prompts', `${format.count(all('prompts_queued'))} waiting`],
    ['Runs started', format.count(all('runs_started_total'))],
    ['Runs resumed', format.count(all('runs_resumed_total'))],
    ['Time a run worked', `median ${seconds(quantile(run, MEDIAN))}, 95 % ${seconds(quantile(run, NEARLY_ALL))}`],
    ['Sync of a ledger', `median ${seconds(quantile(sync, MEDIAN))}, 95 % ${seconds(quantile(sync, NEARLY_ALL))}`],
    ['Failed writes', format.count(all('ledger_failures_total')), all('ledger_failures_total') === 0],
    ['Clients of streams', format.count(all('stream_clients'))],
    ['Skills', `${format.count(all('skills', { state: 'enabled' }))} enabled, ${format.count(all('skills', { state: 'refused' }))} refused`],
    ['Memory', format.bytes(all('process_resident_memory_bytes'))],
    ['Descriptors', `${format.count(all('process_open_fds'))} of ${format.count(all('process_max_fds'))}`],
  ];
  return entries.map(([name, value, isFine]) => h('dl', { class: `tile${isFine === false ? ' tile-bad' : ''}` },
    h('dt', {}, name), h('dd', {}, value)));
}

/** How many questions wait, as the header has it: those of other processes and of interrupted runs are among them. */
function waiting(format, questions) {
  return questions === null ? format.count(null) : `${format.count(questions.approvals.length)}${questions.hasMore ? ' or more' : ''} waiting`;
}

function ends({ h, format }, samples) {
  const rows = (samples.get('runs_ended_total') ?? []).filter(({ value }) => value > 0).sort((one, other) => other.value - one.value);
  if (rows.length === 0) return h('p', {}, 'No run has ended since the daemon started.');
  const note = 'Since the daemon was started. A run that was suspended or interrupted and went on ended more than once.';
  return h('div', {}, h('p', { class: 'dim' }, note), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of ends' },
    h('table', {}, h('thead', {}, h('tr', {}, ...['Status', 'Code', 'Runs'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', {}, ...rows.map(({ labels, value }) => h('tr', {},
        h('th', { scope: 'row' }, h('span', { class: `chip ${labels.status}` }, labels.status)),
        h('td', {}, labels.code), h('td', { class: 'number' }, format.count(value))))))));
}
