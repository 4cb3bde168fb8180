// Greets by name: the smallest skill that still shows a step, an event and a log line.

import { custom, log, run, skill, step } from "skillrun-sdk";

const inputSchema = {
  type: "object",
  properties: { name: { type: "string", minLength: 1 } },
  required: ["name"],
  additionalProperties: false,
};

const outputSchema = {
  type: "object",
  properties: { greeting: { type: "string" }, run_id: { type: "string" } },
  required: ["greeting", "run_id"],
};

export const handler = skill<{ name: string }>({
  name: "greet-ts",
  version: "0.1.0",
  description: "Greets by name",
  inputSchema,
  outputSchema,

  run({ name }) {
    const greeting = step("compose", () => `Hello, ${name}!`);
    log.info("composed a greeting");
    // The greeting is the same whether or not it is on the record.
    try {
      custom("greeted", name);
    } catch (error) {
      log.warn(`cannot record: ${error}`);
    }
    return { greeting, run_id: run.id() };
  },
});
