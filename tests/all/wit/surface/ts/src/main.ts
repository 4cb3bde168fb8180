// Calls everything that the SDK has, and says what came back.

import {
  approval,
  custom,
  Failure,
  handoff,
  HostCallError,
  type Json,
  llm,
  log,
  recorder,
  run,
  skill,
  step,
  tools,
  values,
} from "skillrun-sdk";

const request = { model: "acme/m", messages: [llm.user("hello")] };

const full: llm.Request = {
  ...request,
  system: "Be brief.",
  messages: [
    llm.user("hello"),
    { role: "assistant", content: [{ type: "tool-use", id: "1", name: "t", arguments: { a: 1 } }] },
    { role: "tool", content: [{ type: "tool-answer", id: "1", content: "done", isError: false }] },
    { role: "user", content: [{ type: "text", text: "so?" }] },
  ],
  tools: [{ name: "t", description: "a tool", inputSchema: { type: "object" } }],
  outputTokensMax: 5,
  temperature: 0.5,
  stop: ["."],
  outputSchema: { type: "object" },
};

const calls = ["a__b", "a__c"].map((name) => ({ name, arguments: { x: 1 } }));

const questions: Record<string, () => unknown> = {
  invoke: () => tools.invoke("a__b", { x: 1 }),
  invoke_all: () => values(tools.invokeAll(calls, { parallelMax: 2 })),
  generate: () => llm.generate(request),
  generate_full: () => llm.generate(full),
  generate_as: () => llm.generateAs(request, { type: "object" }),
  stream: () => [...llm.stream(full)],
  request: () => approval.request("May I?", { a: 1 }, { timeoutMs: 5 }),
  require: () => approval.require("May I?"),
  handoff: () => handoff.invoke("other", { a: 1 }),
  handoff_all: () => values(handoff.invokeAll([{ skill: "other", input: {} }])),
  custom: () => custom("n".repeat(129)),
};

function refusal(question: () => unknown): Json {
  try {
    question();
  } catch (error) {
    if (error instanceof HostCallError) return `${error.kind}: ${error.message}`;
    throw error;
  }
  return null;
}

/** What comes back where somebody answers. */
function answers(): unknown {
  const answer = tools.invoke("a__b", { x: "ü" });
  const together = tools.invokeAll(["a__b", "a__failed"].map((name) => ({ name, arguments: {} })));
  const response = llm.generate(full);
  const chunks = [...llm.stream(full)].map((chunk) =>
    chunk.type === "done" ? chunk.response.text : chunk.type === "text" ? chunk.text : used(chunk),
  );
  for (const _ of llm.stream(request)) break;
  const { approved, reason, automatic } = approval.request("May I?", { a: 1 }, { timeoutMs: 5 });
  return {
    available: tools
      .available()
      .map((tool) => [tool.name, tool.inputSchema, tool.readOnly, tool.idempotent]),
    invoke: [answer.content, answer.isError, answer.text],
    check: failure(() => tools.invoke("a__error").check()),
    invoke_all: together.map((one) => (one.ok ? one.value.text : one.error.kind)),
    generate: [response.text, response.stopReason, response.model, response.usage.outputTokens],
    cost_usd: response.usage.costUsd,
    tool_uses: response.toolUses.map(used),
    generate_as: llm.generateAs({ ...request, model: "json" }, { type: "object" }),
    no_json: failure(() => llm.generateAs(request, { type: "object" })),
    chunks,
    request: [approved, reason, automatic],
    require: approval.require("May I?").approved,
    rejected: failure(() => approval.require("May I not?")),
    handoff: handoff.invoke<Json[]>("other", { a: 1 }),
    handoff_all: values(handoff.invokeAll([{ skill: "other", input: {} }])),
    kinds: kinds.map((kind) => refusal(() => tools.invoke(kind))),
  };
}

const kinds = [
  "a__not-found",
  "a__invalid",
  "a__ambiguous",
  "a__failed",
  "a__timed-out",
  "a__exhausted",
  "a__cancelled",
];

function used(use: llm.ToolUse): Json {
  return [use.id, use.name, use.arguments];
}

function failure(work: () => unknown): Json {
  try {
    work();
  } catch (error) {
    if (error instanceof Failure) return `${error.code}: ${error.message}`;
    throw error;
  }
  return null;
}

function ask(): unknown {
  const each = tools.invokeAll(calls).map((outcome) => (outcome.ok ? null : outcome.error.value));
  const answers = Object.entries(questions).map(([name, question]) => [name, refusal(question)]);
  return { available: tools.available(), each, ...Object.fromEntries(answers) };
}

function chance(): unknown {
  const drawn = Array.from({ length: 500 }, () => Math.random());
  const before = performance.now();
  while (performance.now() === before);
  return {
    drawn: drawn.slice(0, 2),
    different: new Set(drawn).size,
    in_range: drawn.every((one) => 0 <= one && one < 1),
    mean: drawn.reduce((sum, one) => sum + one) / drawn.length,
    bytes: [...crypto.getRandomValues(new Uint16Array(8)).subarray(4)],
    unique: crypto.randomUUID(),
    elapsed_ms: [before, performance.now()],
    time_s: [Date.now() / 1000, new Date().getTime() / 1000, performance.timeOrigin / 1000],
  };
}

function record(): unknown {
  const id = step("outer", (id) => step("inner", (inner) => [id, inner]));
  return [
    id,
    custom("mine", { a: [1, null] }),
    recorder.error("so so"),
    recorder.toolCall("c1", "own", { a: 1 }),
    recorder.toolResult("c1", "done"),
    recorder.llmCall({ model: "m", provider: "p", promptTokens: 1, outputTokens: 2, costUsd: 0.5 }),
    recorder.structuredOutput("0".repeat(64), { a: 1 }),
  ];
}

function writeLog(): void {
  log.trace("1");
  log.debug("2");
  log.info("3", { text: "a", count: 1, list: [true] });
  log.warn("4");
  log.error("5");
  console.log("6", { a: 1 });
}

const work: Record<string, () => unknown> = {
  answers,
  ask,
  chance,
  record,
  log: writeLog,
  facts: () => ({
    id: run.id(),
    parent_id: run.parentId() ?? null,
    name: run.skillName(),
    body: run.skillBody(),
    has_time: run.remainingMs() > 0,
    attempt: run.attempt(),
  }),
  fail: () => {
    throw new Failure("on purpose", "some_code", { a: [1] });
  },
  raise: () => {
    throw new TypeError("by accident");
  },
  output: () => 1n,
};

export const handler = skill<{ do: string }>({
  name: "surface-ts",
  version: "0.1.0",
  description: "Calls everything that the SDK has",
  run: (input) => work[input.do]?.(),
});
