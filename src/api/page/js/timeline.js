// From the events of a run to what happened when: a tree of spans. It knows nothing of elements.

import { micros } from './format.js';

/** Every type of event of a ledger, since a stream has a listener for each. */
export const EVENT_TYPES = [
  'run_started', 'run_resumed', 'run_completed', 'node_enter', 'node_exit', 'tool_call', 'tool_result', 'llm_call', 'llm_chunk',
  'structured_output', 'approval_request', 'approval_response', 'http_call', 'http_result', 'timer', 'log', 'error', 'denied', 'prompt',
  'turn_completed', 'session_update', 'session_status', 'custom', 'unknown',
];

/** Events of one run that are kept. Protects the memory of the page. */
export const EVENTS_MAX = 200_000;
/** Steps that are open inside each other. Protects the page from a skill that only enters. */
const STEPS_MAX = 1_000;
/** Characters of a piece of foreign text in a label. */
const LABEL_CHARS = 160;

const POINTS = {
  structured_output: () => 'structured output',
  log: (payload) => text(payload.message),
  error: (payload) => text(payload.message),
  denied: (payload) => `denied: ${text(payload.wanted)}`,
  custom: (payload) => text(payload.name ?? 'custom'),
  session_update: (payload) => text(payload.text ?? payload.kind),
  session_status: (payload) => text(payload.status),
  run_resumed: (payload) => `resumed, attempt ${payload.attempt ?? ''}`,
};

function text(value) {
  if (typeof value === 'string') return value.slice(0, LABEL_CHARS);
  if (isBlob(value)) return String(value.preview ?? '').slice(0, LABEL_CHARS);
  return value === undefined || value === null ? '' : JSON.stringify(value).slice(0, LABEL_CHARS);
}

/** Whether a value is the reference that stands for one too large for a line. */
export function isBlob(value) {
  return typeof value === 'object' && value !== null && typeof value.blob === 'string' && value.truncated === true && typeof value.bytes === 'number';
}

/** A part of a run: of the run as a whole, of a step, a call, or a moment. Times are microseconds since 1970. */
function createSpan(key, kind, parent, start, seq) {
  return {
    key, kind, parent, start, end: null, seq, label: '', children: [], call: null, result: null,
    isPoint: false, isFailed: false, verdict: null, pieces: 0, again: 0, childRunId: null, durationMicros: null,
  };
}

/** The events of one run as a tree that grows event by event. */
export class Timeline {
  #byKey = new Map();
  /** Steps and turns that are open, the innermost last. */
  #open = [];
  #newest = null;

  constructor(runId) {
    this.runId = runId;
    this.root = createSpan(`r:${runId}`, 'run', null, null, 0);
    this.started = null;
    this.completed = null;
    this.attempts = [];
    this.lastSeq = 0;
    this.events = 0;
    this.isFull = false;
    this.damaged = 0;
    this.first = null;
    this.last = null;
    /** Whether a value of the run is stored beside its ledger. */
    this.hasLarge = false;
    this.cost = null;
    this.promptTokens = 0;
    this.outputTokens = 0;
    this.modelCalls = 0;
    this.toolCalls = 0;
    this.httpCalls = 0;
    /** Waits that are over. */
    this.waits = [];
    /** Questions that are open. */
    this.asking = new Set();
    /** Since when an agent has waited for a prompt. */
    this.idleSince = null;
    /** Calls of other skills whose runs are known. */
    this.calls = [];
  }

  /** Takes an event as the ledger has it. What comes again, or too late, is left out. */
  add(event) {
    if (this.isFull) return;
    if (event?.damaged !== undefined) {
      this.damaged += 1;
      return;
    }
    if (typeof event?.seq !== 'number' || event.seq <= this.lastSeq) return;
    this.events += 1;
    this.isFull = this.events >= EVENTS_MAX;
    this.#take(event);
  }

  /** Takes the end of a run of which not all events are shown. */
  addEnd(event) {
    if (event?.type === 'run_completed' && event.seq > this.lastSeq) this.#take(event);
  }

  #take(event) {
    this.lastSeq = event.seq;
    const at = micros(event.time);
    const before = this.#newest ? micros(this.#newest.time) : null;
    if (at !== null) {
      if (this.root.start !== null) this.root.start = Math.min(this.root.start, at);
      this.first = this.first === null ? at : Math.min(this.first, at);
      this.last = Math.max(this.last ?? at, at);
    }
    const payload = typeof event.payload === 'object' && event.payload !== null ? event.payload : {};
    this.hasLarge ||= Object.values(payload).some(isBlob);
    // A line is known by its digest, which the next one has.
    if (this.#newest?.seq === event.seq - 1) this.#newest.sha256 = event.prev ?? null;
    this.#newest = { ...event, payload, sha256: null };
    const handler = Object.hasOwn(HANDLERS, event.type) ? HANDLERS[event.type] : Timeline.prototype.point;
    handler.call(this, this.#newest, before);
  }

  #inside(nodeId) {
    const named = nodeId ? this.#byKey.get(`n:${nodeId}`) : null;
    return named ?? this.#open.at(-1) ?? this.root;
  }

  #enter(span) {
    if (this.#open.length < STEPS_MAX) this.#open.push(span);
  }

  #leave(key) {
    const seat = this.#open.findLastIndex((one) => one.key === key);
    if (seat >= 0) this.#open.length = seat;
  }

  #begin(key, kind, event, label) {
    const known = this.#byKey.get(key);
    if (known) {
      // A call without an answer is made again after the run was resumed, under the same id.
      known.again += 1;
      known.end = null;
      known.isFailed = false;
      return known;
    }
    const parent = this.#inside(event.payload.node_id);
    const made = createSpan(key, kind, parent, micros(event.time), event.seq);
    made.label = label;
    made.call = event;
    parent.children.push(made);
    this.#byKey.set(key, made);
    return made;
  }

  #finish(key, event, isFailed) {
    const known = this.#byKey.get(key);
    if (!known) return null;
    known.end = micros(event.time);
    known.result = event;
    known.isFailed = isFailed;
    known.durationMicros = typeof event.payload.duration_micros === 'number' ? event.payload.duration_micros : null;
    return known;
  }

  /** Something that takes no time. */
  point(event) {
    const { payload } = event;
    const made = createSpan(`e:${event.seq}`, event.type, this.#inside(payload.node_id), micros(event.time), event.seq);
    const label = Object.hasOwn(POINTS, event.type) ? POINTS[event.type](payload) : null;
    made.label = label ?? event.type;
    made.end = made.start;
    made.isPoint = true;
    made.call = event;
    made.isFailed = ['error', 'denied'].includes(event.type) || event.type === 'log' && ['error', 'critical'].includes(payload.level);
    made.parent.children.push(made);
    this.#byKey.set(made.key, made);
  }

  begun(event) {
    this.started = event;
    this.root.start = micros(event.time);
    this.root.call = event;
    this.root.label = text(event.payload.skill);
    this.attempts.push({ from: this.root.start, to: null, event, end: null });
  }

  resumed(event, before) {
    // One that was cut off has no end, and one that repeats another's beginning has that one's times.
    const since = this.completed ? micros(this.completed.time) : before;
    if (since !== null) this.waits.push({ start: since, end: micros(event.time), why: this.completed?.payload.status ?? 'cut off' });
    this.completed = null;
    this.root.end = null;
    this.root.isFailed = false;
    this.root.verdict = null;
    this.attempts.push({ from: micros(event.time), to: null, event, end: null });
    this.point(event);
  }

  ended(event, before) {
    const { status, duration_micros: worked } = event.payload;
    this.completed = event;
    this.root.end = micros(event.time);
    this.root.result = event;
    this.root.isFailed = status === 'error';
    this.root.verdict = typeof status === 'string' ? status : null;
    // Whoever found the run without a process wrote its end, and nobody worked on it until then.
    if (status === 'interrupted' && worked === undefined && before !== null) this.waits.push({ start: before, end: this.root.end, why: 'cut off' });
    if (!['suspended', 'interrupted'].includes(status)) this.asking.clear();
    const attempt = this.attempts.at(-1);
    if (attempt) Object.assign(attempt, { to: this.root.end, end: event });
  }

  stepEntered(event) {
    const { node_id: id, node_name: name } = event.payload;
    const key = `n:${id}`;
    let made = this.#byKey.get(key);
    if (made) made.end = null;
    else {
      made = createSpan(key, 'node', this.#open.at(-1) ?? this.root, micros(event.time), event.seq);
      made.label = text(name || id);
      made.call = event;
      made.parent.children.push(made);
      this.#byKey.set(key, made);
    }
    this.#enter(made);
  }

  stepLeft(event) {
    const key = `n:${event.payload.node_id}`;
    this.#finish(key, event, event.payload.success === false);
    this.#leave(key);
  }

  prompted(event) {
    if (this.idleSince !== null) this.waits.push({ start: this.idleSince, end: micros(event.time), why: 'no prompt' });
    this.idleSince = null;
    this.#enter(this.#begin(`t:${event.payload.generation}`, 'turn', event, text(event.payload.text)));
  }

  sessionStatus(event) {
    // An agent that waits for its next prompt does nothing.
    if (['boot_ready', 'ready'].includes(event.payload.status)) this.idleSince = micros(event.time);
    this.point(event);
  }

  turnEnded(event) {
    const key = `t:${event.payload.generation}`;
    const made = this.#finish(key, event, Boolean(event.payload.error));
    if (!made) return this.point(event);
    made.verdict = event.payload.undone ? 'undone' : null;
    this.#leave(key);
  }

  toolCalled(event) {
    const kind = { skill: 'skill', tools: 'tools' }[event.payload.kind] ?? 'tool';
    const made = this.#begin(`c:${event.payload.call_id}`, kind, event, kind === 'tools' ? 'which tools there are' : text(event.payload.name));
    this.#callOf(made, event);
    this.toolCalls += 1;
  }

  toolAnswered(event) {
    const made = this.#finish(`c:${event.payload.call_id}`, event, Boolean(event.payload.is_error || event.payload.error));
    if (made) this.#callOf(made, event);
  }

  #callOf(span, { payload: { child_run_id: childRunId } }) {
    if (typeof childRunId !== 'string' || span.childRunId) return;
    span.childRunId = childRunId;
    this.calls.push(span);
  }

  modelCalled(event) {
    const { payload } = event;
    const key = `c:${payload.call_id ?? `seq-${event.seq}`}`;
    if (payload.phase === 'call') {
      this.#begin(key, 'model', event, text(payload.model || payload.asked));
      this.modelCalls += 1;
      return;
    }
    // The older system wrote the answer alone, and so does a guest.
    if (!this.#byKey.has(key)) {
      this.#begin(key, 'model', event, text(payload.model));
      this.modelCalls += 1;
    }
    this.#finish(key, event, Boolean(payload.is_error || payload.error));
    if (typeof payload.cost_usd === 'number' && payload.cost_usd >= 0) this.cost = (this.cost ?? 0) + payload.cost_usd;
    this.promptTokens += Number(payload.prompt_tokens) || 0;
    this.outputTokens += Number(payload.output_tokens) || 0;
  }

  modelSaid(event) {
    const made = this.#byKey.get(`c:${event.payload.call_id}`);
    if (made) made.pieces += 1;
  }

  requested(event) {
    this.#begin(`c:${event.payload.call_id}`, 'http', event, `${text(event.payload.method)} ${text(event.payload.url)}`);
    this.httpCalls += 1;
  }

  responded(event) {
    this.#finish(`c:${event.payload.call_id}`, event, Boolean(event.payload.error) || event.payload.status >= 400);
  }

  asked(event) {
    this.asking.add(this.#begin(`a:${event.payload.approval_id}`, 'approval', event, text(event.payload.prompt)));
  }

  decided(event) {
    const made = this.#finish(`a:${event.payload.approval_id}`, event, false);
    if (!made) return;
    made.verdict = event.payload.approved === false ? 'rejected' : null;
    this.asking.delete(made);
    this.waits.push({ start: made.start, end: made.end, why: 'approval' });
  }

  timed(event) {
    const end = micros(event.time);
    const took = Number(event.payload.duration_micros) || 0;
    if (event.payload.poll === undefined || took <= 0) return;
    this.waits.push({ start: end - took, end, why: 'timer' });
    const made = createSpan(`e:${event.seq}`, 'timer', this.#inside(event.payload.node_id), end - took, event.seq);
    Object.assign(made, { label: 'waited for a timer', end, call: event, durationMicros: took });
    made.parent.children.push(made);
  }
}

/** What each type of event does; any other one is a point. */
const HANDLERS = {
  run_started: Timeline.prototype.begun,
  run_resumed: Timeline.prototype.resumed,
  run_completed: Timeline.prototype.ended,
  node_enter: Timeline.prototype.stepEntered,
  node_exit: Timeline.prototype.stepLeft,
  prompt: Timeline.prototype.prompted,
  session_status: Timeline.prototype.sessionStatus,
  turn_completed: Timeline.prototype.turnEnded,
  tool_call: Timeline.prototype.toolCalled,
  tool_result: Timeline.prototype.toolAnswered,
  llm_call: Timeline.prototype.modelCalled,
  llm_chunk: Timeline.prototype.modelSaid,
  http_call: Timeline.prototype.requested,
  http_result: Timeline.prototype.responded,
  approval_request: Timeline.prototype.asked,
  approval_response: Timeline.prototype.decided,
  timer: Timeline.prototype.timed,
};

/**
 * When the run waited, in order and without overlap; what goes on until `now` included. While a run that it asked for
 * waits, it waits as well: `childOf(run_id)` gives the timeline of one that is known.
 */
export function waitsOf(line, now, childOf = () => null) {
  const merged = [];
  for (const wait of allWaits(line, now, childOf, new Set()).sort((a, b) => a.start - b.start)) {
    const before = merged.at(-1);
    if (before && wait.start <= before.end) before.end = Math.max(before.end, wait.end);
    else merged.push({ ...wait });
  }
  return merged;
}

/** `seen` has the runs whose waits are in already: ledgers may claim to be in each other. */
function allWaits(line, now, childOf, seen) {
  seen.add(line.runId);
  const waits = [...line.waits, ...[...line.asking].map((one) => ({ start: one.start, end: now, why: 'approval' }))];
  if (line.idleSince !== null) waits.push({ start: line.idleSince, end: line.root.end ?? now, why: 'no prompt' });
  if (line.completed?.payload.status === 'suspended') waits.push({ start: line.root.end, end: now, why: 'suspended' });
  for (const { childRunId, start, end } of line.calls) {
    const child = seen.has(childRunId) ? null : childOf(childRunId);
    if (!child) continue;
    for (const wait of allWaits(child, end ?? now, childOf, seen)) {
      const within = { ...wait, start: Math.max(wait.start, start), end: Math.min(wait.end, end ?? now) };
      if (within.end > within.start) waits.push(within);
    }
  }
  return waits;
}

/** The part of the shown time of work that a wait takes at most where waits are shortened. */
const SHORT_WAIT_PART = 0.04;

/** A function from a time to its place between `from` and `to`, in percent; `waits` are those that are shortened. */
export function scaleOf(from, to, waits) {
  const inside = waits.map(({ start, end }) => ({ start: Math.max(from, start), end: Math.min(to, end) })).filter(({ start, end }) => end > start);
  const work = to - from - inside.reduce((total, { start, end }) => total + end - start, 0);
  // Pieces in order, each with the weight of all before it.
  const pieces = [{ start: from, weight: 0, speed: 1 }];
  for (const { start, end } of inside) {
    const last = pieces.at(-1);
    const before = last.weight + (start - last.start) * last.speed;
    const speed = work > 0 ? Math.min(1, (work * SHORT_WAIT_PART) / (end - start)) : 1;
    pieces.push({ start, weight: before, speed }, { start: end, weight: before + (end - start) * speed, speed: 1 });
  }
  const weightAt = (time) => {
    let low = 0;
    let high = pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pieces[middle].start <= time) low = middle;
      else high = middle - 1;
    }
    return pieces[low].weight + (time - pieces[low].start) * pieces[low].speed;
  };
  const total = weightAt(to) || 1;
  return (time) => (weightAt(time) / total) * 100;
}

/**
 * The tree as rows, in order of time. `folded` has the keys of spans whose inside is not shown; `childOf(run_id)`
 * gives the timeline of a child run that is shown inline, if there is one; `wanted(span)` says which are shown.
 */
export function rowsOf(line, { folded, childOf, wanted }) {
  const rows = [];
  const stack = [{ span: line.root, depth: 0, line, prefix: '', seen: [line.runId] }];
  while (stack.length) {
    const { span, depth, line: its, prefix, seen } = stack.pop();
    let children = span.children.filter(wanted);
    let inside = its;
    let insidePrefix = prefix;
    let insideSeen = seen;
    // A ledger that claims to be its own child is shown once.
    const child = span.childRunId && !seen.includes(span.childRunId) ? childOf(span.childRunId) : null;
    if (child) {
      children = child.root.children.filter(wanted);
      inside = child;
      insidePrefix = `${prefix}${child.runId}/`;
      insideSeen = [...seen, child.runId];
    }
    const key = prefix + span.key;
    const isFolded = folded.has(key);
    const canOpen = children.length > 0 || Boolean(span.childRunId);
    rows.push({ key, span, depth, line: its, children: children.length, canOpen, isOpen: canOpen && !isFolded && (children.length > 0 || Boolean(child)) });
    if (isFolded) continue;
    for (let place = children.length - 1; place >= 0; place -= 1) {
      stack.push({ span: children[place], depth: depth + 1, line: inside, prefix: insidePrefix, seen: insideSeen });
    }
  }
  return rows;
}
