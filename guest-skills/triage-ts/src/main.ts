// Finds out how urgent a ticket is: asks a tool, a model and, where it matters, a person.

import { approval, Failure, llm, log, run, skill, step, tools } from "skillrun-sdk";

interface Ticket {
  id: string;
  text: string;
}

interface Assessment {
  priority: "low" | "normal" | "high";
  summary: string;
}

const priority = { enum: ["low", "normal", "high"] };

const inputSchema = {
  type: "object",
  properties: {
    id: { type: "string", minLength: 1, maxLength: 64 },
    text: { type: "string", minLength: 1, maxLength: 8000 },
  },
  required: ["id", "text"],
  additionalProperties: false,
};

const outputSchema = {
  type: "object",
  properties: {
    id: { type: "string" },
    priority,
    summary: { type: "string" },
    approved: { type: ["boolean", "null"] },
    applied: { type: "boolean" },
  },
  required: ["id", "priority", "summary", "approved", "applied"],
  additionalProperties: false,
};

const assessmentSchema = {
  type: "object",
  properties: { priority, summary: { type: "string", maxLength: 500 } },
  required: ["priority", "summary"],
  additionalProperties: false,
};

export const handler = skill<Ticket>({
  name: "triage-ts",
  version: "0.1.0",
  description: "Sets the priority of a ticket",
  inputSchema,
  outputSchema,

  run({ id, text }) {
    const similar = step("find-similar", () => findSimilar(text));
    const { priority, summary } = step("assess", () => assess({ id, text }, similar));
    log.info("assessed", { id, priority });

    let approved: boolean | null = null;
    if (priority === "high") {
      approved = step("approve", () => approve({ id, priority, summary }));
    }
    if (approved === false) return { id, priority, summary, approved, applied: false };
    step("apply", () => apply(id, priority));
    return { id, priority, summary, approved, applied: true };
  },
});

/** The texts of similar tickets; empty if there are none, or if nobody can say. */
function findSimilar(text: string): string {
  const answer = tools.invoke("tickets__search", { query: text });
  if (!answer.isError) return answer.text;
  log.warn("cannot search for similar tickets", { error: answer.text });
  return "";
}

function assess({ id, text }: Ticket, similar: string): Assessment {
  const question = `Ticket ${id}:\n${text}\n\nSimilar tickets:\n${similar || "none"}`;
  const request = {
    model: "default",
    system: run.skillBody(),
    messages: [llm.user(question)],
    temperature: 0,
    outputTokensMax: 500,
  };
  return llm.generateAs<Assessment>(request, assessmentSchema);
}

function approve(change: { id: string } & Assessment): boolean {
  return approval.request(`Set ticket ${change.id} to high priority?`, change).approved;
}

function apply(id: string, priority: string): void {
  const answer = tools.invoke("tickets__set_priority", { id, priority });
  if (answer.isError) throw new Failure(answer.text, "not_applied");
}
