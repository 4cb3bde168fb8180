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
/** How deep a tree of spans is shown. */
const DEPTH_MAX = 40;
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

/** A tree that grows event by event. Times are microseconds since 1970. */
export function createTimeline(runId) {
  const root = span(`r:${runId}`, 'run', null, null, 0);
  const byKey = new Map();
  const open = [];
  let previous = null;
  let newest = null;
  const line = {
    runId, root, started: null, completed: null, resumptions: [], attempts: [], lastSeq: 0, events: 0, isFull: false, damaged: 0,
    first: null, last: null, before: null, cost: null, promptTokens: 0, outputTokens: 0, modelCalls: 0, toolCalls: 0, httpCalls: 0, waits: [], asking: new Set(), idleSince: null, add,
  };

  function span(key, kind, parent, start, seq) {
    return { key, kind, parent, start, end: null, seq, label: '', children: [], call: null, result: null, isPoint: false, isFailed: false, pieces: 0, again: 0, childRunId: null, durationMicros: null };
  }

  function inside(nodeId) {
    const named = nodeId ? byKey.get(`n:${nodeId}`) : null;
    return named ?? open.at(-1) ?? root;
  }

  function begin(key, kind, event, label) {
    const known = byKey.get(key);
    if (known) {
      // A call without an answer is made again after the run was resumed, under the same id.
      known.again += 1;
      known.end = null;
      known.isFailed = false;
      return known;
    }
    const parent = inside(event.payload.node_id);
    const made = span(key, kind, parent, micros(event.time), event.seq);
    made.label = label;
    made.call = event;
    parent.children.push(made);
    byKey.set(key, made);
    return made;
  }

  function finish(key, event, isFailed) {
    const known = byKey.get(key);
    if (!known) return null;
    known.end = micros(event.time);
    known.result = event;
    known.isFailed = isFailed;
    known.durationMicros = typeof event.payload.duration_micros === 'number' ? event.payload.duration_micros : null;
    return known;
  }

  function point(event) {
    const payload = event.payload;
    const made = span(`e:${event.seq}`, event.type, inside(payload.node_id), micros(event.time), event.seq);
    made.label = POINTS[event.type]?.(payload) ?? event.type;
    made.end = made.start;
    made.isPoint = true;
    made.call = event;
    made.isFailed = ['error', 'denied'].includes(event.type) || event.type === 'log' && ['error', 'critical'].includes(payload.level);
    made.parent.children.push(made);
    byKey.set(made.key, made);
  }

  const handlers = {
    run_started(event) {
      line.started = event;
      root.start = micros(event.time);
      root.call = event;
      root.label = text(event.payload.skill);
      line.attempts.push({ from: root.start, to: null, event, end: null });
    },
    run_resumed(event) {
      line.resumptions.push(event);
      // One that was cut off has no end, and one that repeats another's beginning has that one's times.
      const since = line.completed ? micros(line.completed.time) : line.before;
      if (since !== null) line.waits.push({ start: since, end: micros(event.time), why: line.completed?.payload.status ?? 'cut off' });
      line.completed = null;
      root.end = null;
      root.isFailed = false;
      line.attempts.push({ from: micros(event.time), to: null, event, end: null });
      point(event);
    },
    run_completed(event) {
      line.completed = event;
      root.end = micros(event.time);
      root.result = event;
      root.isFailed = event.payload.status === 'error';
      if (!['suspended', 'interrupted'].includes(event.payload.status)) line.asking.clear();
      const attempt = line.attempts.at(-1);
      if (attempt) Object.assign(attempt, { to: root.end, end: event });
    },
    node_enter(event) {
      const { node_id: id, node_name: name } = event.payload;
      const parent = open.at(-1) ?? root;
      const known = byKey.get(`n:${id}`);
      const made = known ?? span(`n:${id}`, 'node', parent, micros(event.time), event.seq);
      if (!known) {
        made.label = text(name || id);
        made.call = event;
        parent.children.push(made);
        byKey.set(made.key, made);
      } else made.end = null;
      if (open.length < STEPS_MAX) open.push(made);
    },
    node_exit(event) {
      const key = `n:${event.payload.node_id}`;
      finish(key, event, event.payload.success === false);
      const seat = open.findLastIndex((one) => one.key === key);
      if (seat >= 0) open.length = seat;
    },
    prompt(event) {
      if (line.idleSince !== null) line.waits.push({ start: line.idleSince, end: micros(event.time), why: 'no prompt' });
      line.idleSince = null;
      const made = begin(`t:${event.payload.generation}`, 'turn', event, text(event.payload.text));
      if (open.length < STEPS_MAX) open.push(made);
    },
    session_status(event) {
      // An agent that waits for its next prompt does nothing.
      if (['boot_ready', 'ready'].includes(event.payload.status)) line.idleSince = micros(event.time);
      point(event);
    },
    turn_completed(event) {
      const key = `t:${event.payload.generation}`;
      if (!finish(key, event, Boolean(event.payload.error))) return point(event);
      const seat = open.findLastIndex((one) => one.key === key);
      if (seat >= 0) open.length = seat;
    },
    tool_call(event) {
      const kind = { skill: 'skill', tools: 'tools' }[event.payload.kind] ?? 'tool';
      const made = begin(`c:${event.payload.call_id}`, kind, event, kind === 'tools' ? 'which tools there are' : text(event.payload.name));
      made.childRunId = event.payload.child_run_id ?? made.childRunId;
      line.toolCalls += 1;
    },
    tool_result(event) {
      const made = finish(`c:${event.payload.call_id}`, event, Boolean(event.payload.is_error || event.payload.error));
      if (made) made.childRunId = event.payload.child_run_id ?? made.childRunId;
    },
    llm_call(event) {
      const payload = event.payload;
      const key = `c:${payload.call_id ?? `seq-${event.seq}`}`;
      if (payload.phase === 'call') {
        begin(key, 'model', event, text(payload.model || payload.asked));
        line.modelCalls += 1;
        return;
      }
      // The older system wrote the answer alone.
      if (!byKey.has(key)) begin(key, 'model', event, text(payload.model));
      finish(key, event, Boolean(payload.is_error || payload.error));
      if (typeof payload.cost_usd === 'number') line.cost = (line.cost ?? 0) + payload.cost_usd;
      line.promptTokens += Number(payload.prompt_tokens) || 0;
      line.outputTokens += Number(payload.output_tokens) || 0;
    },
    llm_chunk(event) {
      const made = byKey.get(`c:${event.payload.call_id}`);
      if (made) made.pieces += 1;
    },
    http_call(event) {
      begin(`c:${event.payload.call_id}`, 'http', event, `${text(event.payload.method)} ${text(event.payload.url)}`);
      line.httpCalls += 1;
    },
    http_result(event) {
      finish(`c:${event.payload.call_id}`, event, Boolean(event.payload.error) || event.payload.status >= 400);
    },
    approval_request(event) {
      line.asking.add(begin(`a:${event.payload.approval_id}`, 'approval', event, text(event.payload.prompt)));
    },
    approval_response(event) {
      const made = finish(`a:${event.payload.approval_id}`, event, event.payload.approved === false);
      if (!made) return;
      line.asking.delete(made);
      line.waits.push({ start: made.start, end: made.end, why: 'approval' });
    },
    timer(event) {
      const end = micros(event.time);
      const took = Number(event.payload.duration_micros) || 0;
      if (event.payload.poll !== undefined && took > 0) line.waits.push({ start: end - took, end, why: 'timer' });
    },
  };

  function add(event) {
    if (line.isFull) return;
    if (event?.damaged !== undefined) {
      line.damaged += 1;
      return;
    }
    if (typeof event?.seq !== 'number' || event.seq <= line.lastSeq) return;
    line.lastSeq = event.seq;
    line.events += 1;
    line.isFull = line.events >= EVENTS_MAX;
    const at = micros(event.time);
    line.before = previous;
    previous = at ?? previous;
    if (at !== null) {
      if (root.start !== null) root.start = Math.min(root.start, at);
      line.first = line.first === null ? at : Math.min(line.first, at);
      line.last = Math.max(line.last ?? at, at);
    }
    const payload = typeof event.payload === 'object' && event.payload !== null ? event.payload : {};
    // A line is known by its digest, which the next one has.
    if (newest?.seq === event.seq - 1) newest.sha256 = event.prev ?? null;
    newest = { ...event, payload, sha256: null };
    (handlers[event.type] ?? point)(newest);
  }

  return line;
}

/** When the run waited, in order and without overlap; what goes on until `now` included. */
export function waitsOf(line, now) {
  const open = [...line.asking].map((one) => ({ start: one.start, end: now, why: 'approval' }));
  const end = line.completed?.payload.status;
  if (line.idleSince !== null) open.push({ start: line.idleSince, end: line.root.end ?? now, why: 'no prompt' });
  if (end === 'suspended' || end === 'interrupted') open.push({ start: line.root.end, end: now, why: end });
  const merged = [];
  for (const wait of [...line.waits, ...open].sort((a, b) => a.start - b.start)) {
    const before = merged.at(-1);
    if (before && wait.start <= before.end) before.end = Math.max(before.end, wait.end);
    else merged.push({ ...wait });
  }
  return merged;
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
    if (isFolded || depth >= DEPTH_MAX) continue;
    for (let place = children.length - 1; place >= 0; place -= 1) {
      stack.push({ span: children[place], depth: depth + 1, line: inside, prefix: insidePrefix, seen: insideSeen });
    }
  }
  return rows;
}
