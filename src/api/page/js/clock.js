// The time as the daemon has it: what it records is compared with no other clock than its own.

/**
 * Milliseconds by which the two clocks may differ without a correction. `Date` in an answer knows whole seconds only,
 * and an answer takes its time: protects what is shown from times that jump to and fro.
 */
const DIFFERENCE_MS_MAX = 2_000;

let aheadMs = 0;

/** Learns from an answer, which has just come, how far the daemon's clock is ahead of the browser's. */
export function learn(response) {
  const daemonMs = Date.parse(response.headers.get('Date') ?? '');
  if (Number.isNaN(daemonMs)) return;
  const learnedMs = daemonMs - Date.now();
  if (Math.abs(learnedMs - aheadMs) > DIFFERENCE_MS_MAX) aheadMs = learnedMs;
}

/** Milliseconds since 1970, by the daemon's clock. */
export function now() {
  return Date.now() + aheadMs;
}
