// A person decides. Needs the capability `approval`.

import * as host from "skillrun:skill/approval@0.1.0";

import { ask, Failure } from "./error";
import { encode } from "./json";

export type Decision = host.Decision;

/** How to ask. */
export interface Asking {
  /** After so many milliseconds it is decided without a person; left out: after the host's default. */
  timeoutMs?: number;
}

/** Asks and waits. `payload` is what exactly is approved. A rejection is a decision, not an error. */
export function request(prompt: string, payload: unknown = null, asking: Asking = {}): Decision {
  const question = { prompt, payload: encode(payload), timeoutMs: asking.timeoutMs };
  return ask(() => host.request(question));
}

/** Asks and waits. A rejection is a Failure with the code `rejected`. */
export function require(prompt: string, payload: unknown = null, asking: Asking = {}): Decision {
  const decision = request(prompt, payload, asking);
  if (decision.approved) return decision;
  const { reason } = decision;
  const message = reason === "" ? `rejected: ${prompt}` : `rejected: ${prompt}: ${reason}`;
  throw new Failure(message, "rejected");
}
