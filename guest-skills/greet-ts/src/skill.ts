// From a function on objects to what the world `skill` asks for: texts of JSON, and errors that are
// records. Nothing here is about greeting; a skill of your own can begin with a copy of this file.

import { Node, type RecordError } from "skillrun:skill/recorder@0.1.0";
import type { HostError, SkillError } from "skillrun:skill/types@0.1.0";

/** What a skill says about itself, and what it does. */
export interface Skill {
  name: string;
  version: string;
  description: string;
  inputSchema?: object;
  outputSchema?: object;
  /** The input is a JSON object, not yet checked against the schema; the result is any JSON value. */
  run(input: object): unknown;
}

/** Ends the run as a skill error. */
export class Failure extends Error {
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

/** What the world asks a component to export as `handler`. */
export function skill(skill: Skill): typeof import("skillrun:skill/handler@0.1.0") {
  return {
    describe: () => ({
      name: skill.name,
      version: skill.version,
      description: skill.description,
      inputSchema: skill.inputSchema ? JSON.stringify(skill.inputSchema) : "",
      outputSchema: skill.outputSchema ? JSON.stringify(skill.outputSchema) : "",
    }),
    run(input) {
      try {
        // There is no JSON for undefined, which is what a function without a result gives.
        return JSON.stringify(skill.run(JSON.parse(input)) ?? null);
      } catch (thrown) {
        // Thrown as a plain record it is the answer of the call. An Error would end the run as a
        // panic, with a message from inside the engine.
        throw skillError(thrown);
      }
    },
  };
}

/** Does `work` inside a step: recorded as entered before and as left after it, with its success. */
export function step<T>(name: string, work: () => T): T {
  const node = new Node(name);
  try {
    const result = work();
    node.end(true);
    return result;
  } finally {
    // A step that is dropped without its end is recorded as failed.
    node[Symbol.dispose]();
  }
}

function skillError(thrown: unknown): SkillError {
  if (thrown instanceof Failure) {
    return {
      message: thrown.message,
      code: thrown.code,
      details: JSON.stringify(thrown.details ?? null),
    };
  }
  const refusal = refusalIn(thrown);
  if (refusal) {
    const code = refusal.tag === "denied" ? "denied" : "";
    return { message: reason(thrown), code, details: "null" };
  }
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  return {
    message: reason(thrown),
    code: "exception",
    details: JSON.stringify({ stack: stack ?? null }),
  };
}

/** Why something was thrown, in one line. */
export function reason(thrown: unknown): string {
  const refusal = refusalIn(thrown);
  if (!refusal) return String(thrown);
  return "val" in refusal ? `${refusal.tag}: ${refusal.val}` : refusal.tag;
}

/** What the host answered instead of a result: a script gets an Error with the variant in `payload`. */
function refusalIn(thrown: unknown): HostError | RecordError | undefined {
  const payload = (thrown as { payload?: HostError | RecordError } | null)?.payload;
  return typeof payload?.tag === "string" ? payload : undefined;
}
