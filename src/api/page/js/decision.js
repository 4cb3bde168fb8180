// What every card that asks a person has in common: the time that is left, and what was decided, in words.

import { now } from './clock.js';
import * as format from './format.js';

/** Characters of a reason; the daemon takes no more. */
export const REASON_CHARS_MAX = 1_024;
/** Milliseconds that are left when a question becomes urgent. */
const URGENT_MS = 60_000;
const MILLIS_PER_SECOND = 1_000;
const MICROS_PER_SECOND = 1_000_000;

/** Decisions that no person made, by their source. */
const MADE_BY_NOBODY = { timeout: 'Nobody answered in time', cancelled: 'Its turn was cancelled', auto: 'A rule answered' };

/**
 * The time until then by the daemon's clock, in whole seconds.
 * @returns {{words: string, look: 'bad' | 'warn' | 'dim'}}
 */
export function timeLeft(untilMs) {
  const leftMs = untilMs - now();
  if (leftMs <= 0) return { words: 'The time to answer is over', look: 'bad' };
  const leftMicros = Math.ceil(leftMs / MILLIS_PER_SECOND) * MICROS_PER_SECOND;
  return { words: `${format.duration(leftMicros)} left to answer`, look: leftMs < URGENT_MS ? 'warn' : 'dim' };
}

/** What became of a question that this card did not answer, without the reason. */
export function decidedElsewhere({ decision, source }) {
  const word = decision === 'approve' ? 'approved' : 'rejected';
  if (Object.hasOwn(MADE_BY_NOBODY, source)) return `${MADE_BY_NOBODY[source]}: it was ${word}.`;
  return `Somebody was first: it was ${word} ${format.decider(source)}.`;
}
