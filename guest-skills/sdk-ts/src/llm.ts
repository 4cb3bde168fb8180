// Language models. They need `llm:` capabilities; keys stay in the host.

import * as host from "skillrun:skill/llm@0.1.0";

import { ask, Failure } from "./error";
import { decode, encode, type Json, type JsonObject } from "./json";

/** The model asks for a tool. */
export interface ToolUse {
  type: "tool-use";
  /** Chosen by the model; ties the answer to the request. */
  id: string;
  name: string;
  arguments: JsonObject;
}

/** One part of a message. */
export type Part =
  | { type: "text"; text: string }
  | ToolUse
  | { type: "tool-answer"; id: string; content: string; isError: boolean };

/** One message of a conversation. */
export interface Message {
  role: host.Role;
  /** A text alone, or parts. */
  content: string | Part[];
}

/** A tool that the model may ask for. The skill calls it, not the host. */
export interface ToolOffer {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  inputSchema: object;
}

/** A question to a model. */
export interface Request {
  /** `provider/model`, or a model that the operator's configuration names. */
  model: string;
  system?: string;
  /** The conversation so far, oldest first; at least one message. */
  messages: Message[];
  tools?: ToolOffer[];
  /** Left out: the model's own bound, or what is left of the run's budget. */
  outputTokensMax?: number;
  /** 0 to 2. */
  temperature?: number;
  /** Texts at which the model stops. */
  stop?: string[];
  /** JSON Schema for the answer; checked by the host. */
  outputSchema?: object;
}

/** A whole answer. */
export class Response {
  constructor(
    readonly content: Part[],
    readonly stopReason: host.StopReason,
    readonly usage: host.Usage,
    /** The model that answered, as its provider names it. */
    readonly model: string,
  ) {}

  /** The text of the answer. */
  get text(): string {
    return this.content.map((part) => (part.type === "text" ? part.text : "")).join("");
  }

  /** The tools that the model asks for. */
  get toolUses(): ToolUse[] {
    return this.content.filter((part) => part.type === "tool-use");
  }
}

/** One piece of a streamed answer. `done` is the last and holds the whole answer. */
export type Chunk =
  | { type: "text"; text: string }
  | ToolUse
  | { type: "done"; response: Response };

/** A message of the user. */
export function user(content: string | Part[]): Message {
  return { role: "user", content };
}

/** Asks and waits for the whole answer. */
export function generate(request: Request): Response {
  return readResponse(ask(() => host.generate(encodeRequest(request))));
}

/** Asks for an answer that fits a schema, and gives its value. */
export function generateAs<Value = Json>(request: Request, outputSchema: object): Value {
  const { text, stopReason } = generate({ ...request, outputSchema });
  try {
    return decode(text) as Value;
  } catch (cause) {
    const message = `the model stopped for ${stopReason}, and its answer is not JSON: ${cause}`;
    throw new Failure(message, "invalid_answer");
  }
}

/**
 * Asks when the first chunk is wanted, and gives the answer as it comes. Left before its end, it cancels
 * the request.
 */
export function* stream(request: Request): Generator<Chunk, void, void> {
  const completion = ask(() => host.start(encodeRequest(request)));
  try {
    for (;;) {
      const chunk = ask(() => completion.next());
      // What is absent comes as null, whatever its type says.
      if (chunk == null) return;
      yield readChunk(chunk);
    }
  } finally {
    completion[Symbol.dispose]();
  }
}

function encodeRequest(request: Request): host.Request {
  const { tools = [], stop = [], outputSchema } = request;
  return {
    model: request.model,
    system: request.system,
    messages: request.messages.map(({ role, content }) => ({ role, content: encodeParts(content) })),
    tools: tools.map((tool) => ({ ...tool, inputSchema: encode(tool.inputSchema) })),
    outputTokensMax: request.outputTokensMax,
    temperature: request.temperature,
    stop,
    outputSchema: outputSchema && encode(outputSchema),
  };
}

function encodeParts(content: string | Part[]): host.Part[] {
  if (typeof content === "string") return [{ tag: "text", val: content }];
  return content.map((part): host.Part => {
    switch (part.type) {
      case "text":
        return { tag: "text", val: part.text };
      case "tool-use": {
        const { id, name } = part;
        return { tag: "tool-use", val: { id, name, arguments: encode(part.arguments) } };
      }
      case "tool-answer": {
        const { id, content, isError } = part;
        return { tag: "tool-answer", val: { id, content, isError } };
      }
    }
  });
}

function readResponse({ content, stopReason, usage, model }: host.Response): Response {
  return new Response(content.map(readPart), stopReason, usage, model);
}

function readPart(part: host.Part): Part {
  switch (part.tag) {
    case "text":
      return { type: "text", text: part.val };
    case "tool-use":
      return readToolUse(part.val);
    case "tool-answer":
      return { type: "tool-answer", ...part.val };
  }
}

function readToolUse(use: host.ToolUse): ToolUse {
  const args = decode(use.arguments) as JsonObject;
  return { type: "tool-use", id: use.id, name: use.name, arguments: args };
}

function readChunk(chunk: host.Chunk): Chunk {
  switch (chunk.tag) {
    case "text":
      return { type: "text", text: chunk.val };
    case "tool-use":
      return readToolUse(chunk.val);
    case "done":
      return { type: "done", response: readResponse(chunk.val) };
  }
}
