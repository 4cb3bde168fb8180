// Answers to several calls at once.

import type { HostError } from "skillrun:skill/types@0.1.0";

import { type HostCallError, refusal } from "./error";

/** What became of one of several calls. */
export type Outcome<T> = { ok: true; value: T } | { ok: false; error: HostCallError };

/** How several calls are carried out. */
export interface Together {
  /** How many at a time; left out, or 0: the host's default. */
  parallelMax?: number;
}

type Answered<T> = { tag: "ok"; val: T } | { tag: "err"; val: HostError };

/** The outcomes, with what came back turned into values. */
export function outcomes<T, U>(answered: Answered<T>[], read: (answer: T) => U): Outcome<U>[] {
  return answered.map((one) =>
    one.tag === "ok"
      ? { ok: true, value: read(one.val) }
      : { ok: false, error: refusal(one.val) },
  );
}

/** The values of all outcomes. The first error in the order of the calls is thrown instead. */
export function values<T>(outcomes: Outcome<T>[]): T[] {
  return outcomes.map((outcome) => {
    if (!outcome.ok) throw outcome.error;
    return outcome.value;
  });
}
