// From a function on values to what the world `skill` asks for: texts of JSON, and errors that are
// records.

import { Failure, skillError } from "./error";
import { decode, encode, type JsonObject } from "./json";
import { begin } from "./platform";

/** What a skill says about itself, and what it does. */
export interface Skill<Input extends object> {
  /** 1 to 64 of `a-z`, `0-9` and `-`, the same as the folder's. */
  name: string;
  version: string;
  /** One or two sentences for whoever chooses among skills. */
  description: string;
  /** JSON Schema of the input. The host refuses what does not fit, before `run` is called. */
  inputSchema?: object;
  /** JSON Schema of the result, which the host checks too. */
  outputSchema?: object;
  /** Does the work; the result is any JSON value. There is no event loop, so a promise is none. */
  run(input: Input): unknown;
}

/** What the world asks a component to export as `handler`. */
export function skill<Input extends object = JsonObject>(
  skill: Skill<Input>,
): typeof import("skillrun:skill/handler@0.1.0") {
  return {
    describe() {
      begin();
      return {
        name: skill.name,
        version: skill.version,
        description: skill.description,
        inputSchema: skill.inputSchema ? encode(skill.inputSchema) : "",
        outputSchema: skill.outputSchema ? encode(skill.outputSchema) : "",
      };
    },
    run(input) {
      begin();
      try {
        return result(skill.run(decode(input) as unknown as Input));
      } catch (thrown) {
        // Thrown as a plain record it is the answer of the call. An Error would end the run as a
        // panic, with a message from inside the engine.
        throw skillError(thrown);
      }
    },
  };
}

function result(output: unknown): string {
  if (output instanceof Promise) {
    throw new Failure("the result is a promise, and nobody waits for it", "invalid_output");
  }
  try {
    return encode(output);
  } catch (cause) {
    throw new Failure(`cannot encode the result: ${cause}`, "invalid_output");
  }
}
