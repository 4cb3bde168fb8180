// Tools of upstream servers and of the embedding host. They need `tool:` capabilities.

import * as host from "skillrun:skill/tools@0.1.0";

import { ask, Failure } from "./error";
import { decode, encode, type Json, type JsonObject } from "./json";
import { type Outcome, outcomes, type Together } from "./results";

/** One tool that may be called. */
export interface Tool extends Omit<host.Tool, "inputSchema"> {
  /** JSON Schema of the arguments. */
  inputSchema: JsonObject;
}

/** One call of several. */
export interface Call {
  name: string;
  arguments: object;
}

/** What a tool answered. */
export class Answer {
  constructor(
    /** MCP content blocks, as they came. */
    readonly content: Json[],
    /** The tool itself says that it failed. */
    readonly isError: boolean,
  ) {}

  /** The texts of the text blocks, one below the other. */
  get text(): string {
    return this.content.flatMap(textOf).join("\n");
  }

  /** The answer itself. One that says that the tool failed is a Failure with the code `tool_error`. */
  check(): this {
    if (this.isError) throw new Failure(this.text, "tool_error");
    return this;
  }
}

/** The tools that this run may call, in order of their names. */
export function available(): Tool[] {
  return host
    .available()
    .map((tool) => ({ ...tool, inputSchema: decode(tool.inputSchema) as JsonObject }));
}

/** Calls a tool and waits for its answer. A name without its server works when only one tool has it. */
export function invoke(name: string, args: object = {}): Answer {
  return read(ask(() => host.invoke(name, encode(args))));
}

/** Calls several tools; what became of each, in the order of the calls. */
export function invokeAll(calls: Call[], { parallelMax = 0 }: Together = {}): Outcome<Answer>[] {
  const encoded = calls.map((call) => ({ name: call.name, arguments: encode(call.arguments) }));
  return outcomes(
    ask(() => host.invokeAll(encoded, parallelMax)),
    read,
  );
}

function read(answer: host.Answer): Answer {
  return new Answer(decode(answer.content) as Json[], answer.isError);
}

function textOf(block: Json): string[] {
  if (block === null || typeof block !== "object" || Array.isArray(block)) return [];
  return block.type === "text" && typeof block.text === "string" ? [block.text] : [];
}
