// Write skills for skillrun in TypeScript.
//
//     import { skill } from "skillrun-sdk";
//
//     export const handler = skill<{ name: string }>({
//       name: "greet",
//       version: "1.0.0",
//       description: "Greets by name",
//       run: ({ name }) => ({ greeting: `Hello, ${name}!` }),
//     });
//
// An agent keeps what it knows in an object that takes prompts:
//
//     import { agent, session } from "skillrun-sdk";
//
//     export const sessionHandler = agent({
//       name: "count",
//       version: "1.0.0",
//       description: "Counts prompts",
//       start() {
//         let prompts = 0;
//         return { prompt: () => session.emitText(`${++prompts}`) };
//       },
//     });

export { type Agent, agent, type AgentDescription, type Context, type StopReason } from "./agent";
export * as approval from "./approval";
export { Failure, HostCallError, type HostErrorKind } from "./error";
export * as handoff from "./handoff";
export type { Json, JsonObject } from "./json";
export * as llm from "./llm";
export * as log from "./log";
export * as recorder from "./recorder";
export { custom, step } from "./recorder";
export { type Outcome, values } from "./results";
export * as run from "./run";
export * as session from "./session";
export { type Skill, skill } from "./skill";
export * as tools from "./tools";
