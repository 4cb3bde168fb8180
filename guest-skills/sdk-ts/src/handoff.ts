// Other skills, as runs of their own below this one. They need `skill:` capabilities.

import * as host from "skillrun:skill/handoff@0.1.0";

import { ask } from "./error";
import { decode, encode, type Json } from "./json";
import { type Outcome, outcomes, type Together } from "./results";

/** One call of several. */
export interface Call {
  skill: string;
  input: object;
}

/** Runs another skill and waits for its result, whose type the caller knows. */
export function invoke<Output = Json>(skill: string, input: object = {}): Output {
  return decode(ask(() => host.invoke(skill, encode(input)))) as Output;
}

/** Runs several; what became of each, in the order of the calls. */
export function invokeAll(calls: Call[], { parallelMax = 0 }: Together = {}): Outcome<Json>[] {
  const encoded = calls.map((call) => ({ skill: call.skill, input: encode(call.input) }));
  return outcomes(
    ask(() => host.invokeAll(encoded, parallelMax)),
    decode,
  );
}
