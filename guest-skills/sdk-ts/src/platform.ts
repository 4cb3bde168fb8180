// What a script expects of its platform and the engine lacks or has wrong: random numbers that differ
// from run to run, a clock that starts at 0, a console.

import { getRandomBytes } from "wasi:random/random@0.2.12";

import { write } from "./log";

declare global {
  /** Random values from the host. There are none while the skill is built. */
  var crypto: {
    getRandomValues<T extends ArrayBufferView>(array: T): T;
    randomUUID(): string;
  };
  /** Milliseconds since the run began, and when that was. */
  var performance: { now(): number; readonly timeOrigin: number };
  /** Writes log lines. */
  var console: Record<
    "trace" | "debug" | "log" | "info" | "warn" | "error",
    (...values: unknown[]) => void
  >;
}

/** Bytes that are fetched at a time, for `Math.random`. */
const POOL_BYTES = 1024;
/** Bytes that one draw takes. */
const DRAW_BYTES = 8;
/** Bytes that `getRandomValues` fills at a time, as on other platforms. Protects the run, which would end. */
const RANDOM_VALUES_BYTES_MAX = 65_536;

const engineRandom = Math.random;
const engineNow = performance.now.bind(performance);

/** Whether this is a run, and not the build, during which the host answers nothing. */
let isRun = false;
/** What the engine's clock said when the run began, and when that was. */
let origin = 0;
let timeOrigin = 0;
let pool: DataView = new DataView(new ArrayBuffer(0));
let drawn = 0;

/** To be called first in everything that the host calls. */
export function begin(): void {
  isRun = true;
  origin = engineNow();
  timeOrigin = Date.now();
}

function randomBytes(count: number): Uint8Array {
  if (!isRun) throw new Error("there are no random values while the skill is built");
  // The engine takes 64-bit integers as numbers, whatever the type says.
  return getRandomBytes(count as unknown as bigint);
}

function random(): number {
  // Code that is imported may draw while the skill is built, and would end the build.
  if (!isRun) return engineRandom();
  if (drawn + DRAW_BYTES > pool.byteLength) {
    const { buffer, byteOffset, byteLength } = randomBytes(POOL_BYTES);
    pool = new DataView(buffer, byteOffset, byteLength);
    drawn = 0;
  }
  // A number below 1 has room for 53 bits: 21 and 32 of them.
  const high = pool.getUint32(drawn) >>> 11;
  const low = pool.getUint32(drawn + 4);
  drawn += DRAW_BYTES;
  return (high * 2 ** 32 + low) / 2 ** 53;
}

function getRandomValues<T extends ArrayBufferView>(array: T): T {
  const { buffer, byteOffset, byteLength } = array;
  if (byteLength > RANDOM_VALUES_BYTES_MAX) {
    throw new RangeError(`${byteLength} random bytes: expected at most ${RANDOM_VALUES_BYTES_MAX}`);
  }
  new Uint8Array(buffer, byteOffset, byteLength).set(randomBytes(byteLength));
  return array;
}

function randomUUID(): string {
  const bytes = randomBytes(16);
  // Version 4, variant 1 of RFC 9562.
  const marked = bytes.map((byte, at) =>
    at === 6 ? (byte & 0x0f) | 0x40 : at === 8 ? (byte & 0x3f) | 0x80 : byte,
  );
  const digits = Array.from(marked, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const line =
  (level: Parameters<typeof write>[0]) =>
  (...values: unknown[]): void =>
    write(level, values.map(shown).join(" "));

function shown(value: unknown): string {
  if (value === null || typeof value !== "object" || value instanceof Error) return String(value);
  return JSON.stringify(value) ?? String(value);
}

Math.random = random;
// The properties of the engine's own object cannot be set.
Object.defineProperty(globalThis, "performance", {
  value: {
    now: () => engineNow() - origin,
    get timeOrigin() {
      return timeOrigin;
    },
  },
});
globalThis.crypto = { getRandomValues, randomUUID };
globalThis.console = {
  trace: line("trace"),
  debug: line("debug"),
  log: line("info"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
};
