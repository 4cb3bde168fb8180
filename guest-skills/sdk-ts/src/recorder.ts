// What a skill puts into the run's ledger itself. The host records its own calls without being told.

import * as host from "skillrun:skill/recorder@0.1.0";

import { ask } from "./error";
import { encode } from "./json";

/** Does `work` inside a step: recorded as entered before and as left after it, with its success. */
export function step<T>(name: string, work: (id: string) => T): T {
  const node = new host.Node(name);
  try {
    const result = work(node.id());
    node.end(true);
    return result;
  } finally {
    // A step that is dropped without its end is recorded as failed.
    node[Symbol.dispose]();
  }
}

/** Records an event of the skill's own; gives its number in the ledger, as all below do. */
export function custom(name: string, payload: unknown = null): number {
  return emit({ tag: "custom", val: { name, payload: encode(payload) } });
}

/** Records that something went wrong and the skill goes on. */
export function error(message: string): number {
  return emit({ tag: "error", val: message });
}

/** Records a call that the skill makes on its own, under an id that the result repeats. */
export function toolCall(callId: string, name: string, args: object): number {
  return emit({ tag: "tool-call", val: { callId, name, arguments: encode(args) } });
}

/** Records the answer to such a call. */
export function toolResult(callId: string, output: string, isError = false): number {
  return emit({ tag: "tool-result", val: { callId, output, isError } });
}

/** Records a use of a language model that did not go through `llm`. */
export function llmCall(call: host.LlmCall): number {
  return emit({ tag: "llm-call", val: call });
}

/** Records a result that fits a schema, named by the SHA-256 of its text in hexadecimal. */
export function structuredOutput(schemaDigest: string, output: unknown): number {
  return emit({ tag: "structured-output", val: { schemaDigest, output: encode(output) } });
}

function emit(event: host.Event): number {
  return ask(() => host.emit(event));
}
