// Greets by name: the smallest skill that still shows a step, an event and a log line.

import { write } from "skillrun:skill/log@0.1.0";
import { emit } from "skillrun:skill/recorder@0.1.0";
import { id } from "skillrun:skill/run@0.1.0";

import { Failure, reason, skill, step } from "./skill";

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

function nameIn(input: object): string {
  const { name, ...unknown } = input as Record<string, unknown>;
  if (typeof name !== "string" || name === "") {
    throw new Failure("name is missing, empty or not a text", "invalid_input");
  }
  const [first] = Object.keys(unknown);
  if (first !== undefined) {
    throw new Failure(`${JSON.stringify(first)} is not known`, "invalid_input");
  }
  return name;
}

export const handler = skill({
  name: "greet-ts",
  version: "0.1.0",
  description: "Greets by name",
  inputSchema,
  outputSchema,

  run(input) {
    const { name, greeting } = step("compose", () => {
      const name = nameIn(input);
      return { name, greeting: `Hello, ${name}!` };
    });
    write("info", "composed a greeting", []);
    // The greeting is the same whether or not it is on the record.
    try {
      emit({ tag: "custom", val: { name: "greeted", payload: JSON.stringify(name) } });
    } catch (error) {
      write("warn", `cannot record: ${reason(error)}`, []);
    }
    return { greeting, run_id: id() };
  },
});
