// Values as people read them. All functions take `null` and `undefined` for "not known".

import { now } from './clock.js';

const UNKNOWN = '–';
/** US dollars below which it is only said that it is less. */
const LEAST_DOLLARS = 0.00001;

/** Three digits of a number below a thousand, and none of an exponent. */
function three(number) {
  return number >= 999.5 ? String(Math.round(number)) : number.toPrecision(3);
}

/** A number of microseconds, with the unit that fits. */
export function duration(micros) {
  if (micros === null || micros === undefined || Number.isNaN(micros)) return UNKNOWN;
  if (micros < 1_000) return `${Math.round(micros)} µs`;
  if (micros < 1_000_000) return `${three(micros / 1_000)} ms`;
  const seconds = micros / 1_000_000;
  if (seconds < 60) return `${three(seconds)} s`;
  const whole = Math.floor(seconds);
  const two = (first, firstUnit, second, secondUnit) => `${first} ${firstUnit}${second ? ` ${second} ${secondUnit}` : ''}`;
  if (whole < 3_600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86_400) return two(Math.floor(whole / 3_600), 'h', Math.floor((whole % 3_600) / 60), 'min');
  return two(Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3_600), 'h');
}

/** A number of bytes, in powers of 1,024. */
export function bytes(count) {
  if (count === null || count === undefined) return UNKNOWN;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1_024 && unit < units.length - 1) {
    value /= 1_024;
    unit += 1;
  }
  return `${unit === 0 ? value : three(value)} ${units[unit]}`;
}

/** A whole number with separators. */
export function count(number) {
  if (number === null || number === undefined) return UNKNOWN;
  // What JavaScript cannot hold stays as it is spelled.
  if (typeof number === 'object') return JSON.stringify(number);
  return Number(number).toLocaleString('en');
}

/** US dollars, with as many digits as a small amount needs. */
export function cost(dollars) {
  if (dollars === null || dollars === undefined) return UNKNOWN;
  if (dollars === 0) return '$0';
  if (dollars < LEAST_DOLLARS) return `< $${LEAST_DOLLARS}`;
  return `$${dollars < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(2)}`;
}

/** Milliseconds since 1970 of a time as the daemon spells it, or `null`. */
export function millis(time) {
  const parsed = time ? Date.parse(time) : Number.NaN;
  return Number.isNaN(parsed) ? null : parsed;
}

/** Microseconds since 1970 of a time as the daemon spells it, or `null`. `Date` knows milliseconds only. */
export function micros(time) {
  const whole = millis(time);
  if (whole === null) return null;
  const fraction = /\.(\d{3})(\d{1,3})/.exec(time);
  return whole * 1_000 + (fraction ? Number(fraction[2].padEnd(3, '0')) : 0);
}

/** Date and time of day, where the reader is. */
export function time(text) {
  const at = millis(text);
  if (at === null) return UNKNOWN;
  const day = new Date(at);
  const two = (number) => String(number).padStart(2, '0');
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return `${date} ${two(day.getHours())}:${two(day.getMinutes())}:${two(day.getSeconds())}`;
}

/** How long ago that was, roughly. */
export function ago(text) {
  const at = millis(text);
  if (at === null) return UNKNOWN;
  const seconds = Math.max(0, Math.round((now() - at) / 1_000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** The beginning of an id or digest, for where the whole is shown elsewhere. */
export function short(id) {
  if (!id) return UNKNOWN;
  const bare = String(id).replace(/^(run|exec)_/, '');
  return bare.length > 12 ? `…${bare.slice(-8)}` : bare;
}

/** A JSON value, indented. */
export function json(value) {
  return JSON.stringify(value, null, 2) ?? 'undefined';
}

/** A word of the daemon's as a person reads it: `run_started` is `run started`. */
export function words(text) {
  return String(text ?? UNKNOWN).replaceAll('_', ' ');
}

/** Over which way something was decided. */
export function decider(source) {
  const ways = {
    cli: 'at the command line', web: 'on a page', mcp: 'by an MCP client', api: 'over HTTP', auto: 'by a rule',
    timeout: 'since nobody answered in time', cancelled: 'since its turn was cancelled',
  };
  return Object.hasOwn(ways, source) ? ways[source] : words(source);
}
