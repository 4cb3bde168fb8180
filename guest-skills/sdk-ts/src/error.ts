// Why a skill has no result, and why the host did not do what was asked.

import type { RecordError } from "skillrun:skill/recorder@0.1.0";
import type { HostError, SkillError } from "skillrun:skill/types@0.1.0";

import { encode } from "./json";

/** The code of an error that comes from a denied host call. The host ends the run as `denied` then. */
const DENIED = "denied";

/** Ends the run as a skill error. */
export class Failure extends Error {
  override readonly name = "Failure";

  constructor(
    message: string,
    /** A stable word for a program. */
    readonly code = "",
    /** Any JSON value. */
    readonly details: unknown = null,
  ) {
    super(message);
  }
}

/** Why the host did not do what was asked. `too-large` is said by the recorder only. */
export type HostErrorKind = HostError["tag"] | RecordError["tag"];

/**
 * The host did not do what was asked. It can be caught, and the skill may go on; what is not caught ends
 * the run, with the kind as its code.
 */
export class HostCallError extends Error {
  override readonly name = "HostCallError";

  constructor(
    readonly kind: HostErrorKind,
    message: string,
    /** What came with the kind: a capability, a name, the names to choose from, a time in milliseconds. */
    readonly value: string | number | readonly string[] | null = null,
  ) {
    super(message);
  }
}

/** Calls the host. A refusal, which the engine throws as an object, becomes a HostCallError. */
export function ask<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    const payload = (thrown as { payload?: HostError | RecordError } | null)?.payload;
    throw typeof payload?.tag === "string" ? refusal(payload) : thrown;
  }
}

/** The exception for what the host answered instead of a result. */
export function refusal(error: HostError | RecordError): HostCallError {
  const value = "val" in error ? error.val : null;
  return new HostCallError(error.tag, inWords(error), value);
}

function inWords(error: HostError | RecordError): string {
  switch (error.tag) {
    case "denied":
      return `denied: ${error.val} is not granted`;
    case "not-found":
      return `${error.val} does not exist`;
    case "invalid":
      return `invalid arguments: ${error.val}`;
    case "ambiguous":
      return `ambiguous name: one of ${error.val.join(", ")}`;
    case "failed":
      return error.val;
    case "timed-out":
      return `no answer within ${error.val} ms`;
    case "exhausted":
      return "val" in error ? error.val : "this run may write no more events";
    case "too-large":
      return `the event is larger than ${error.val} bytes`;
    case "cancelled":
      return "the run is being cancelled";
  }
}

/** What ends the run, for anything that was thrown. */
export function skillError(thrown: unknown): SkillError {
  if (thrown instanceof Failure) {
    return { message: thrown.message, code: thrown.code, details: encode(thrown.details) };
  }
  if (thrown instanceof HostCallError) {
    const code = thrown.kind === "denied" ? DENIED : thrown.kind.replaceAll("-", "_");
    return { message: thrown.message, code, details: "null" };
  }
  const stack = thrown instanceof Error ? (thrown.stack ?? null) : null;
  return { message: String(thrown), code: "exception", details: encode({ stack }) };
}
