// Talks with a person: keeps the conversation in memory, streams what the model says, calls the tools
// that it asks for, and asks the person before one of them changes anything.

import {
  type Agent,
  agent,
  type Context,
  Failure,
  HostCallError,
  llm,
  run,
  session,
  type StopReason,
  tools,
} from "skillrun-sdk";

/** Rounds of tools in one turn. Protects the person from a model that goes in circles. */
const ROUNDS_MAX = 16;
/** Messages that are kept. Protects the host's calls, each of which carries all of them. */
const MESSAGES_MAX = 200;

type Told = { content: string; isError: boolean };

class Chat implements Agent {
  readonly #model: string;
  readonly #windowTokens: number;
  readonly #always = new Set<string>();
  #messages: llm.Message[] = [];

  constructor({ metadata: { model = "default", context_window: window = 200_000 } }: Context) {
    if (typeof model !== "string") {
      throw new Failure("metadata model: expected a text", "invalid_input");
    }
    if (!Number.isInteger(window) || !(Number(window) > 0 && Number(window) < 2 ** 32)) {
      throw new Failure("metadata context_window: expected a number of tokens", "invalid_input");
    }
    this.#model = model;
    this.#windowTokens = Number(window);
  }

  prompt(text: string): StopReason {
    if (text.trim() === "") throw new Failure("the prompt is empty", "invalid_input");
    this.#forget();
    this.#messages.push(llm.user(text));
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const { stopReason, toolUses } = this.#answer();
      if (stopReason === "token-limit" || stopReason === "refusal") {
        this.#close(toolUses);
        return stopReason;
      }
      if (toolUses.length === 0) return "end-turn";
      this.#useTools(toolUses);
    }
    const message = `the model still asks for tools after ${ROUNDS_MAX} rounds`;
    throw new Failure(message, "too_many_rounds");
  }

  /** Lets the model speak. What it said before it broke off was said. */
  #answer(): llm.Response {
    let said = "";
    try {
      for (const chunk of llm.stream(this.#request())) {
        if (chunk.type === "done") {
          this.#say(chunk.response);
          return chunk.response;
        }
        if (chunk.type === "text") {
          session.emitText(chunk.text);
          said += chunk.text;
        }
      }
    } catch (error) {
      if (said !== "") this.#messages.push({ role: "assistant", content: said });
      throw error;
    }
    throw new Failure("the answer has no end", "failed");
  }

  #say({ content, usage }: llm.Response): void {
    const said = content.filter((part) => part.type !== "text" || part.text !== "");
    if (said.length > 0) this.#messages.push({ role: "assistant", content: said });
    const used = usage.inputTokens + usage.outputTokens;
    // A provider that does not count says nothing.
    if (used > 0) session.contextWindow(used, this.#windowTokens);
  }

  #request(): llm.Request {
    const offers = tools.available().map(({ name, description, inputSchema }) => {
      return { name, description, inputSchema };
    });
    const system = run.skillBody();
    return { model: this.#model, system, messages: this.#messages, tools: offers };
  }

  /** Calls the tools one after the other. However that ends, no request of the model stays open. */
  #useTools(uses: llm.ToolUse[]): void {
    const answers: llm.Part[] = [];
    try {
      for (const use of uses) {
        answers.push({ type: "tool-answer", id: use.id, ...this.#useTool(use) });
      }
    } finally {
      this.#close(uses, answers);
    }
  }

  /** Gives the model the answers that there are; no model takes a request for a tool without one. */
  #close(uses: llm.ToolUse[], answers: llm.Part[] = []): void {
    const open = uses.slice(answers.length).map(({ id }): llm.Part => {
      return { type: "tool-answer", id, content: "cancelled", isError: true };
    });
    const content = [...answers, ...open];
    if (content.length > 0) this.#messages.push({ role: "tool", content });
  }

  #useTool(use: llm.ToolUse): Told {
    const tool = tools.available().find(({ name }) => name === use.name);
    if (!tool) return { content: `there is no tool ${use.name}`, isError: true };
    try {
      if (!tool.readOnly && !this.#isAllowed(use)) {
        session.reasoning(`${use.name} was not called: the user said no`);
        return { content: "the user said no", isError: true };
      }
      const { text, isError } = tools.invoke(use.name, use.arguments);
      return { content: text, isError };
    } catch (error) {
      // The model may have another idea; only the end of the turn is no answer.
      if (!(error instanceof HostCallError) || error.kind === "cancelled") throw error;
      return { content: error.message, isError: true };
    }
  }

  #isAllowed({ name, arguments: args }: llm.ToolUse): boolean {
    if (this.#always.has(name)) return true;
    const options = [
      { id: "allow", label: "Allow" },
      { id: "allow_always", label: "Allow always" },
      { id: "deny", label: "Deny" },
    ];
    const details = { tool: name, arguments: args };
    const chosen = session.requestPermission(`Call ${name}?`, options, details);
    if (chosen === "allow_always") this.#always.add(name);
    return chosen === "allow" || chosen === "allow_always";
  }

  /** Forgets the oldest turns when there are many messages; each begins with one of the user. */
  #forget(): void {
    const { length } = this.#messages;
    if (length < MESSAGES_MAX) return;
    const isKept = ({ role }: llm.Message, at: number): boolean =>
      at >= length - MESSAGES_MAX / 2 && role === "user";
    const kept = this.#messages.findIndex(isKept);
    this.#messages = kept < 0 ? [] : this.#messages.slice(kept);
  }
}

export const sessionHandler = agent({
  name: "chat-ts",
  version: "0.1.0",
  description: "Talks with a person and uses tools on the way",
  start: (context) => new Chat(context),
});
