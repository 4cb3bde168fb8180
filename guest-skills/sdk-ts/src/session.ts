// What an agent says to whoever watches it. Each update is an event of its execution. Only an agent has
// a session: a skill that uses this cannot be built.

import * as host from "skillrun:skill/session@0.1.0";

import { ask } from "./error";
import { encode } from "./json";

/** One step of a plan, whose priority is highest at 0. */
export type PlanEntry = host.PlanEntry;

/** One choice of a permission request; its id is unique within the request. */
export type PermissionOption = host.PermissionOption;

/** The next piece of the answer. The pieces of a turn, put together, are the answer. */
export function emitText(text: string): void {
  emit({ tag: "message-chunk", val: text });
}

/** Text that explains how the answer comes about. */
export function reasoning(text: string): void {
  emit({ tag: "reasoning", val: text });
}

/** The whole plan as it stands now; it replaces the one before. */
export function plan(entries: PlanEntry[]): void {
  emit({ tag: "plan", val: entries });
}

/** How many tokens of the context window are used, and how many there are. */
export function contextWindow(usedTokens: number, sizeTokens: number): void {
  emit({ tag: "context-window", val: [usedTokens, sizeTokens] });
}

/**
 * Asks whoever watches to choose, waits, and gives the id of what was chosen. `details` is what it is
 * about.
 */
export function requestPermission(
  title: string,
  options: PermissionOption[],
  details: unknown = null,
): string {
  return ask(() => host.requestPermission(title, options, encode(details)));
}

function emit(update: host.Update): void {
  ask(() => host.emit(update));
}
