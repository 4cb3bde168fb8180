// What stands beside the waterfall: a span that was opened, and what is known of the run as a whole.

import { fill, h, text } from './dom.js';
import * as format from './format.js';
import { isBlob } from './timeline.js';
import { facts, value } from './value.js';

/** Attempts and lines of policy that are shown. Protects the page. */
const LINES_MAX = 200;
/** Steps and calls that are listed to be resumed from. Protects the page. */
const POINTS_MAX = 100;

function failure(error) {
  if (error === undefined || error === null) return null;
  if (typeof error === 'string') return error;
  if (isBlob(error)) return String(error.preview ?? '');
  const { kind, ...rest } = error;
  const said = rest.message ?? rest.name ?? (rest.names ? rest.names.join(', ') : rest.limit_ms ? `after ${rest.limit_ms} ms` : '');
  return `${format.words(kind)}${said ? `: ${said}` : ''}`;
}

/** What was opened: `item` is a row of the waterfall. */
export function spanCard(item, app, { isOwn, close, zoom, resume }) {
  const { span } = item;
  const call = span.call?.payload ?? {};
  const result = span.result?.payload ?? {};
  const node = pointOf(span);
  return h('article', { class: 'card span', 'aria-label': 'What was opened' },
    h('div', { class: 'head' }, h('h2', null, app.dom.line(span.label || span.kind, 200)), h('div', { class: 'actions' },
      h('button', { type: 'button', class: 'quiet', onclick: close, 'aria-label': 'Close' }, '✕'))),
    facts([
      ['Kind', format.words(span.kind)],
      ['Id', node ? h('code', null, node) : null],
      ['Said by', span.call?.source === 'guest' ? 'the skill' : 'the host'],
      ['State', span.isPoint ? null : span.verdict ?? (span.isFailed ? h('span', { class: 'bad' }, 'failed') : span.end === null ? 'no end on record' : 'done')],
      [span.isPoint ? 'At' : 'Began', moment(span.start)],
      ['Ended', span.isPoint || span.end === null ? null : moment(span.end)],
      ['Took', span.isPoint ? null : format.duration(span.durationMicros ?? (span.end === null ? null : span.end - span.start))],
      ['Effect', call.effect ? format.words(call.effect) : null],
      ['Provider', call.provider],
      ['Model', result.model ?? call.model],
      ['Asked as', call.asked],
      ['Tokens', result.prompt_tokens === undefined ? null : `${format.count(result.prompt_tokens)} in, ${format.count(result.output_tokens)} out`],
      ['Cost', result.cost_usd === undefined ? null : format.cost(result.cost_usd)],
      ['Pieces', span.pieces ? format.count(span.pieces) : null],
      ['Made again', span.again ? `${span.again} ${span.again === 1 ? 'time' : 'times'}` : null],
      ['Status', result.status],
      ['Decision', result.approved === undefined ? null : `${result.approved ? 'approved' : 'rejected'} ${format.decider(result.source)}`],
      ['Chosen', result.option ? h('code', null, result.option) : null],
      ['Level', call.level],
      ['Capability', call.capability ? h('code', null, call.capability) : null],
      ['Rule', call.rule],
      ['Code', call.code],
      ['In the run', isOwn ? null : h('a', { href: `#/runs/${item.line.runId}` }, format.short(item.line.runId))],
      ['Run', span.childRunId ? h('a', { href: `#/runs/${span.childRunId}` }, format.short(span.childRunId)) : null],
    ]),
    call.hint ? h('div', { class: 'note' }, call.hint) : null,
    failure(result.error) ? h('div', { class: 'note bad' }, h('strong', null, 'Error'), text(failure(result.error), { label: 'Error' })) : null,
    payloads(span, call, result, (label, shown, options) => value(label, shown, { ...options, load: (digest) => app.api.blob(item.line.runId, digest) })),
    h('div', { class: 'actions' },
      zoom ? h('button', { type: 'button', onclick: zoom }, 'Zoom to it') : null,
      resume && node ? h('button', { type: 'button', onclick: () => resume(node) }, 'Resume from here') : null),
    onRecord(span, result));
}

/** The lines of the ledger that say it, by which somebody else can check them. */
function onRecord(span, result) {
  const line = ({ seq, sha256 }) => [`line ${seq} `, h('code', { class: 'dim' }, sha256 ?? 'the newest one')];
  return h('details', null, h('summary', null, 'On record'), facts([
    ['Begins', span.call ? line(span.call) : null],
    ['Ends', span.result ? line(span.result) : null],
    ['Run inside', result.child_head ? line(result.child_head) : null],
  ]));
}

/** A moment, to the millisecond, where the reader is. */
function moment(micros) {
  if (micros === null) return null;
  const iso = new Date(micros / 1_000).toISOString();
  return `${format.time(iso)}.${iso.slice(20, 23)}`;
}

function payloads(span, call, result, value) {
  const base64 = (payload) => payload.base64 ? 'Base64, since it is no text.' : null;
  switch (span.kind) {
    case 'tool': case 'tools': case 'skill':
      return [value('Arguments', call.arguments, { isTruncated: call.truncated }), value('Result', result.output, { isTruncated: result.truncated })];
    case 'model':
      return [value('Request', call.request), value('Answer', result.output)];
    case 'http':
      return [value('Address', call.url), value('Request headers', call.headers), value('Request body', call.body, { note: base64(call) }),
        value('Response headers', result.headers), value('Response body', result.body, { isTruncated: result.truncated, note: base64(result) })];
    case 'approval':
      return [value('Question', call.prompt), value('What it is about', call.payload), value('Reason', result.reason), value('Answer', result.answer)];
    case 'run':
      return [value('Input', call.input), value('Output', result.output, { isTruncated: result.truncated })];
    case 'turn':
      return [value('Prompt', call.text), span.result ? value('How it ended', result) : null];
    case 'node':
      return null;
    case 'log':
      return [value('Line', call.message), value('Fields', call.fields), call.dropped ? h('p', { class: 'warn' }, `${call.dropped} lines before it were dropped`) : null];
    case 'structured_output':
      return value('Value', call.output);
    default:
      return value('What it carries', call);
  }
}

/**
 * How the run ended and what a person can do about it; `explanation` is what the daemon knows beyond its end, and
 * `show(seq)` leads to an event.
 */
export function outcomeCard(line, explanation, show) {
  const end = line.completed?.payload;
  const said = failure(end?.error);
  if (end?.status === 'ok' && !said || !end && !explanation) return null;
  const tone = { ok: 'good', error: 'bad' }[end?.status] ?? 'warn';
  // The settings say the same, and more.
  const hints = explanation?.settings.length ? [] : new Set([explanation?.hint ?? end?.hint].filter(Boolean));
  const isCodeNews = end?.code && end.code !== end.status && end.code !== 'interrupted';
  return h('div', { class: `note ${tone} why-ended`, role: 'group', 'aria-label': 'Why it ended' },
    h('p', null, h('strong', null, end ? `${format.words(end.status)}${isCodeNews ? `: ${format.words(end.code)}` : ''}` : 'No end on record')),
    said ? text(said, { label: 'What failed' }) : null,
    explanation ? h('p', null, h('strong', null, 'Decided by: '), explanation.decided,
      explanation.seq ? [' ', h('button', { type: 'button', class: 'quiet', onclick: () => show(explanation.seq) }, `Event ${explanation.seq}`)] : null) : null,
    end?.limit && !explanation ? h('p', null, 'Limit reached: ', h('code', null, limitText(end.limit))) : null,
    end?.stop_reason ? h('p', null, 'Stopped because: ', String(end.stop_reason)) : null,
    explanation?.settings.map((setting) => h('p', null, h('strong', null, 'To change it: '), h('code', null, setting.change), ` in ${setting.place}`)),
    [...hints].map((hint) => h('p', null, h('strong', null, 'What to do: '), hint)),
    explanation?.denials && explanation.cause !== 'capability' ? h('p', { class: 'dim' }, `${format.count(explanation.denials)} calls were refused, which did not decide.`) : null);
}

function limitText(limit) {
  if (typeof limit !== 'object' || limit === null) return String(limit);
  const { key, value: set, source, ...rest } = limit;
  return `${key ?? 'limit'} = ${set ?? '?'} (${source ?? 'unknown source'})${Object.keys(rest).length ? ` ${JSON.stringify(rest)}` : ''}`;
}

function card(title, ...children) {
  return h('section', { class: 'card' }, h('h2', null, title), children);
}

function folded(title, isOpen, ...children) {
  const made = h('details', { class: 'card' }, h('summary', null, title), children);
  made.open = isOpen;
  return made;
}

/**
 * The cards about the run. Whether one was folded is kept by whoever asks again. `record` has what is asked of its
 * ledger as a whole, and `resume(id)` begins a new run at a step or a call.
 */
export function runCards(line, row, app, { record, resume }) {
  const load = (digest) => app.api.blob(line.runId, digest);
  const started = line.started?.payload;
  const end = line.completed?.payload;
  if (!started) return [];
  const head = row?.head;
  const limits = started.limits && typeof started.limits === 'object' ? Object.entries(started.limits) : [];
  return [
    card('Input and output',
      value('Input', started.input ?? {}, { load }),
      end ? value('Output', end.output, { isTruncated: end.truncated, load }) ?? h('p', { class: 'dim' }, 'There is no output.') : h('p', { class: 'dim' }, 'The run goes on.')),
    card('Run', facts([
      ['Skill', h('a', { href: `#/skills/${encodeURIComponent(started.skill.split('.')[0])}` }, started.skill)],
      ['Flavor', started.flavor],
      ['Started', format.time(line.started.time)],
      ['Ended', line.completed ? format.time(line.completed.time) : null],
      ['Waited for a place', end?.queued_micros === undefined ? null : format.duration(end.queued_micros)],
      [line.attempts.length > 1 ? 'Last attempt took' : 'Took', end?.duration_micros === undefined ? null : format.duration(end.duration_micros)],
      ['Calls', `${line.toolCalls} tools and skills, ${line.modelCalls} models, ${line.httpCalls} requests`],
      ['Tokens', line.modelCalls ? `${format.count(line.promptTokens)} in, ${format.count(line.outputTokens)} out` : null],
      ['Cost', line.cost === null ? null : format.cost(line.cost)],
      ['Durability', started.durability],
      ['Component', started.component_digest ? h('code', null, started.component_digest) : null],
      ['Input digest', started.input_digest ? h('code', null, started.input_digest) : null],
      ['Trace', started.trace_id ? h('code', null, started.trace_id) : null],
      ['Client', started.client ? `${started.client.surface} ${started.client.id}` : null]])),
    card('Ledger', facts([
      ['Lines', head ? format.count(head.seq) : format.count(line.lastSeq)],
      ['Head', head ? h('code', null, head.sha256) : null],
      ['Chained', row && !row.chained ? 'no' : null],
      ['Damage', row?.corruption ? h('span', { class: 'bad' }, row.corruption) : null]]),
    record.verification),
    card('Again', record.replay, resume ? points(line, resume) : null),
    line.attempts.length > 1 ? card('Attempts', h('ol', { class: 'attempts' }, line.attempts.slice(0, LINES_MAX).map((attempt) => h('li', null,
      format.time(attempt.event.time), attempt.event.payload.reason ? ` (${format.words(attempt.event.payload.reason)})` : '',
      ' ', h('span', { class: `chip ${attempt.end?.payload.status ?? 'running'}` }, attempt.end?.payload.status ?? 'running'),
      attempt.to === null ? '' : ` after ${format.duration(attempt.to - attempt.from)}`)))) : null,
    policy(started.policy),
    limits.length ? folded('Limits', false, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Limits of the run' }, h('table', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Limit'), h('th', { scope: 'col', class: 'right' }, 'Value'), h('th', { scope: 'col' }, 'Source'))),
      h('tbody', null, limits.slice(0, LINES_MAX).map(([key, limit]) => h('tr', null,
        h('td', { class: 'mono key' }, key), h('td', { class: 'right' }, format.count(limit?.value)), h('td', null, limit?.source ?? ''))))))) : null,
  ].filter(Boolean);
}

/** Steps and calls at which a new run can go on that repeats this one up to there; found when somebody wants to see them. */
function points(line, resume) {
  const list = h('ul', { class: 'plain' });
  const made = h('details', { ontoggle: () => {
    if (!made.open) return;
    const { found, isCut } = pointsOf(line);
    fill(list, found.length === 0 ? h('li', { class: 'dim' }, 'There are none.') : found.map((id) => h('li', null,
      h('button', { type: 'button', class: 'quiet', onclick: () => resume(id) }, `Resume from ${id}`))),
    isCut ? h('li', { class: 'dim' }, 'Those that follow are in the waterfall.') : null);
  } }, h('summary', null, 'Resume points'), list);
  return made;
}

function pointsOf(line) {
  const found = [];
  const stack = [line.root];
  while (stack.length && found.length <= POINTS_MAX) {
    const span = stack.pop();
    const id = span.isPoint ? null : pointOf(span);
    if (id) found.push(id);
    for (let at = span.children.length - 1; at >= 0; at -= 1) if (!span.children[at].isPoint) stack.push(span.children[at]);
  }
  return { found: found.slice(0, POINTS_MAX), isCut: found.length > POINTS_MAX };
}

/** What a run can be resumed from is called, of a step or a call; `null` of anything else. */
function pointOf({ kind, call }) {
  const { call_id: callId, approval_id: approvalId, node_id: nodeId } = call?.payload ?? {};
  return callId ?? approvalId ?? (kind === 'node' ? nodeId : null) ?? null;
}

function policy(shown) {
  if (!shown || typeof shown !== 'object') return null;
  const list = (title, entries) => [h('h3', null, title), Array.isArray(entries) && entries.length
    ? h('ul', { class: 'plain' }, entries.slice(0, LINES_MAX).map((entry) => h('li', { class: 'mono' },
      typeof entry === 'string' ? entry : [entry.capability ?? JSON.stringify(entry), entry.source ? h('span', { class: 'dim' }, ` (${entry.source})`) : null])))
    : h('p', { class: 'dim' }, 'Nothing.')];
  return folded('Policy', false, list('May do', shown.effective), list('Asked for', shown.requested), list('Granted', shown.granted));
}
