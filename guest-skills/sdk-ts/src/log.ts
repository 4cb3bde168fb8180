// Log lines. Each is a `log` event in the run's ledger, and none ever fails.

import { type Level, write as writeLine } from "skillrun:skill/log@0.1.0";

import { encode } from "./json";

export type { Level };

/** Names and values beside the message. What is no text is written as JSON. */
export type Fields = Record<string, unknown>;

/** Writes one line. */
export function write(level: Level, message: string, fields: Fields = {}): void {
  const pairs = Object.entries(fields).map(([name, value]): [string, string] => [
    name,
    typeof value === "string" ? value : encode(value),
  ]);
  writeLine(level, message, pairs);
}

const at =
  (level: Level) =>
  (message: string, fields?: Fields): void =>
    write(level, message, fields);

export const trace = at("trace");
export const debug = at("debug");
export const info = at("info");
export const warn = at("warn");
export const error = at("error");
