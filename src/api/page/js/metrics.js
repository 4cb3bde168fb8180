// The figures of the daemon, as `/metrics` spells them. All functions are pure.

/** Lines that are read. Protects the page from an answer that is none of the daemon's. */
const LINES_MAX = 20_000;
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const PREFIX = 'skillrun_';

/**
 * Parses the text format of Prometheus.
 * @param {string} text
 * @returns {Map<string, {labels: Record<string, string>, value: number}[]>} by name, without the prefix of the daemon
 */
export function parseMetrics(text) {
  const samples = new Map();
  for (const row of text.split('\n', LINES_MAX)) {
    const found = row.startsWith('#') ? null : SAMPLE.exec(row);
    if (found === null) continue;
    const [, name, labelText = '', valueText] = found;
    const labels = {};
    for (const [, key, value] of labelText.matchAll(LABEL)) {
      labels[key] = value.replace(/\\(.)/g, (_all, one) => (one === 'n' ? '\n' : one));
    }
    const value = { '+Inf': Infinity, '-Inf': -Infinity }[valueText] ?? Number(valueText);
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
    if (!samples.has(key)) samples.set(key, []);
    samples.get(key).push({ labels, value });
  }
  return samples;
}

/** The sum of a figure over those of its labels that are as given. */
export function sum(samples, name, wanted = {}) {
  const found = (samples.get(name) ?? []).filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value));
  return found.length === 0 ? null : found.reduce((total, { value }) => total + value, 0);
}

/** By how much a counter rose; from zero, when the process is another one. */
export function rise(now, before) {
  if (now === null) return null;
  return before === null || now < before ? now : now - before;
}

/**
 * The upper bounds and counts of a histogram between two looks, each with those of its bucket alone.
 * @returns {{bound: number, count: number}[]}
 */
export function buckets(now, before, name) {
  const at = (samples) => new Map((samples?.get(`${name}_bucket`) ?? []).map(({ labels, value }) => [labels.le, value]));
  const earlier = at(before);
  const later = at(now);
  const isAnother = [...later].some(([le, value]) => value < (earlier.get(le) ?? 0));
  const sorted = [...later]
    .map(([le, value]) => ({ bound: le === '+Inf' ? Infinity : Number(le), below: value - (isAnother ? 0 : earlier.get(le) ?? 0) }))
    .sort((one, other) => one.bound - other.bound);
  return sorted.map(({ bound, below }, index) => ({ bound, count: below - (index === 0 ? 0 : sorted[index - 1].below) }));
}

/**
 * A quantile in the unit of the bounds, taken as even within a bucket.
 * @returns {number | null} `null` when nothing was counted
 */
export function quantile(counted, share) {
  const total = counted.reduce((all, { count }) => all + count, 0);
  if (total === 0) return null;
  let left = total * share;
  let lower = 0;
  for (const { bound, count } of counted) {
    if (count > 0 && left <= count) {
      return bound === Infinity ? lower : lower + (bound - lower) * (left / count);
    }
    left -= count;
    if (bound !== Infinity) lower = bound;
  }
  return lower;
}
