// What a JSON Schema says of how long, how large and how many, in words, and whether a value keeps to it. The daemon
// has the last word; this tells whoever fills in a form before it is sent. All functions are pure.

import { isRaw, spelled } from './schema_json.js';

/** Digits up to which whole numbers are compared exactly. Protects the page from one that is as long as a skill likes. */
const EXACT_DIGITS_MAX = 1_000;

/** What is counted or compared of a value, by the kind of its field. */
const BOUNDS = {
  string: { least: 'minLength', most: 'maxLength', units: ['character', 'characters'], sizeOf: (text) => [...text].length },
  array: { least: 'minItems', most: 'maxItems', units: ['entry', 'entries'], sizeOf: (list) => list.length },
  number: { least: 'minimum', most: 'maximum', units: null, sizeOf: (number) => number },
  integer: { least: 'minimum', most: 'maximum', units: null, sizeOf: (number) => number },
};

/**
 * What a value has to be, such as `1 to 80 characters`; empty when the schema does not say.
 * @param {string} kind as `kindOf` gives it
 * @param {object} schema a resolved one
 */
export function boundsInWords(kind, schema) {
  const also = kind !== 'string' ? [] : [
    typeof schema.format === 'string' ? `format ${schema.format}` : '',
    // It is shown and not tried: a pattern of a skill can take longer than the page lives.
    typeof schema.pattern === 'string' ? `pattern ${schema.pattern}` : '',
  ];
  return [rangeInWords(kind, schema), ...exclusiveOf(kind, schema).map(({ words }) => words), ...also].filter((part) => part !== '').join(', ');
}

/**
 * What is wrong with the value, or `null`.
 * @param {string} kind as `kindOf` gives it
 * @param {object} schema a resolved one
 * @param {unknown} value one of that kind
 */
export function unmetBounds(kind, schema, value) {
  if (!Object.hasOwn(BOUNDS, kind)) return null;
  const { sizeOf } = BOUNDS[kind];
  const { least, most } = limitsOf(kind, schema);
  const size = sizeOf(value);
  const isMet = (least === null || compare(size, least) >= 0) && (most === null || compare(size, most) <= 0);
  const missed = exclusiveOf(kind, schema).find(({ isKept }) => !isKept(value));
  if (isMet && missed) return `${missed.words} is expected`;
  return isMet ? null : `${rangeInWords(kind, schema)} ${takesOne(kind, least, most) ? 'is' : 'are'} expected`;
}

function rangeInWords(kind, schema) {
  if (!Object.hasOwn(BOUNDS, kind)) return '';
  const { units } = BOUNDS[kind];
  const { least, most } = limitsOf(kind, schema);
  if (least === null && most === null) return '';
  const unit = units === null ? '' : ` ${units[takesOne(kind, least, most) ? 0 : 1]}`;
  if (least === null) return `at most ${spelled(most)}${unit}`;
  if (most === null) return `at least ${spelled(least)}${unit}`;
  return compare(least, most) === 0 ? `exactly ${spelled(least)}${unit}` : `${spelled(least)} to ${spelled(most)}${unit}`;
}

/** Whether the last number that is named is one, of what is counted. Numbers themselves are always one. */
function takesOne(kind, least, most) {
  return BOUNDS[kind].units === null || (most ?? least) === 1;
}

/** Bounds of a number that are themselves left out, in words, with whether a number keeps to them. */
const EXCLUSIVE = [
  ['exclusiveMinimum', 'more than', (order) => order > 0],
  ['exclusiveMaximum', 'less than', (order) => order < 0],
];

function exclusiveOf(kind, schema) {
  if (kind !== 'number' && kind !== 'integer') return [];
  return EXCLUSIVE.filter(([name]) => Object.hasOwn(schema, name) && (typeof schema[name] === 'number' || isRaw(schema[name])))
    .map(([name, words, keeps]) => ({ words: `${words} ${spelled(schema[name])}`, isKept: (value) => keeps(compare(value, schema[name])) }));
}

function limitsOf(kind, schema) {
  const { least, most, units } = BOUNDS[kind];
  const limit = (name) => {
    const value = Object.hasOwn(schema, name) ? schema[name] : null;
    const isUsable = units === null ? typeof value === 'number' || isRaw(value) : Number.isSafeInteger(value) && value >= 0;
    return isUsable ? value : null;
  };
  // Whoever counts from nothing needs not be told so.
  const from = limit(least);
  return { least: units !== null && from === 0 ? null : from, most: limit(most) };
}

/** Below 0, 0 or above 0, as one is less than the other, equal or more. */
function compare(one, other) {
  const isWhole = [one, other].every((number) => spelled(number).length <= EXACT_DIGITS_MAX && /^-?[0-9]+$/.test(spelled(number)));
  const [left, right] = [one, other].map((number) => (isWhole ? BigInt(spelled(number)) : Number(spelled(number))));
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
