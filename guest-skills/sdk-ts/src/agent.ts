// From an object that takes prompts to what the world `agent` asks for.

import type { StopReason } from "skillrun:skill/session-handler@0.1.0";

import { Failure, HostCallError, skillError } from "./error";
import { decode, type JsonObject } from "./json";
import { begin } from "./platform";

export type { StopReason };

/** Where and how an execution runs. */
export interface Context {
  /** The session that the execution belongs to. */
  sessionId: string;
  /** Path of the workspace folder as the agent sees it, when there is one. */
  workspace?: string;
  /** The tool mode at the start: `task`, `config` or `office`. */
  mode: string;
  /** What the launcher passed on. */
  metadata: JsonObject;
}

/** An agent that was started. What it knows is in its own fields. */
export interface Agent {
  /**
   * One turn: everything between a prompt and the moment when the agent waits for the next one. Nothing
   * returned is `end-turn`. What is thrown ends the turn, and the agent is prompted again; a
   * HostCallError of the kind `cancelled` ends it as cancelled. There is no event loop, so a promise is
   * no answer.
   */
  prompt(text: string): StopReason | void;
  /** Called once on a graceful end, within a bounded time. */
  finish?(): void;
}

/** What an agent says about itself, and how it is started. */
export interface AgentDescription {
  /** 1 to 64 of `a-z`, `0-9` and `-`, the same as the folder's. */
  name: string;
  version: string;
  /** One or two sentences for whoever chooses among skills. */
  description: string;
  /** Called once, before the first prompt. What is thrown ends the execution as failed. */
  start(context: Context): Agent;
}

/** What the world asks a component to export as `sessionHandler`. */
export function agent(
  description: AgentDescription,
): typeof import("skillrun:skill/session-handler@0.1.0") {
  let started: Agent | undefined;
  return {
    describe() {
      begin();
      const { name, version, description: text } = description;
      return { name, version, description: text, inputSchema: "", outputSchema: "" };
    },
    start({ sessionId, workspace, mode, metadata }) {
      begin();
      answering(() => {
        const context = { sessionId, mode, metadata: decode(metadata) as JsonObject };
        // What is absent comes as null, whatever its type says.
        started = description.start(workspace == null ? context : { ...context, workspace });
        refusePromise(started);
      });
    },
    prompt(text) {
      return answering(() => {
        if (!started) throw new Failure("the agent was not started", "not_started");
        return turn(started, text);
      });
    },
    finish() {
      const finished = started;
      started = undefined;
      finished?.finish?.();
    },
  };
}

function turn(agent: Agent, text: string): StopReason {
  try {
    const reason = agent.prompt(text);
    refusePromise(reason);
    return reason ?? "end-turn";
  } catch (thrown) {
    if (thrown instanceof HostCallError && thrown.kind === "cancelled") return "cancelled";
    throw thrown;
  }
}

function refusePromise(answer: unknown): void {
  if (answer instanceof Promise) {
    throw new Failure("the answer is a promise, and nobody waits for it", "invalid_output");
  }
}

/** Throws as a plain record what was thrown: an Error would end the execution as a panic. */
function answering<T>(work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw skillError(thrown);
  }
}
