// JSON as values, and as the text that crosses to the host.

/** A value that JSON has. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** An object of such values. */
export interface JsonObject {
  [key: string]: Json;
}

/** The text of a value. There is no JSON for `undefined`, and `null` takes its place. */
export function encode(value: unknown): string {
  return JSON.stringify(value ?? null) ?? "null";
}

/** The value of a text that comes from the host, which has checked that it is JSON. */
export function decode(text: string): Json {
  return JSON.parse(text);
}
