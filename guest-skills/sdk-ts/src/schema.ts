// Whether a value fits a JSON Schema, as far as the keywords below go. Others say nothing here; a skill
// that needs them checks by itself.

import { encode, type Json, type JsonObject } from "./json";

/** The keywords that are checked. */
interface Keywords {
  type?: string | string[];
  enum?: Json[];
  const?: Json;
  properties?: Record<string, object>;
  required?: string[];
  additionalProperties?: boolean | object;
  items?: object;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
}

/** The first thing about the value that does not fit, with its place; nothing when all of it does. */
export function misfit(schema: object, value: Json, place = "$"): string | undefined {
  const keywords = schema as Keywords;
  const types = keywords.type === undefined ? [] : [keywords.type].flat();
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) {
    return `at ${place}: expected ${types.join(" or ")}, found ${typeOf(value)}`;
  }
  const allowed = "const" in keywords ? [keywords.const] : keywords.enum;
  if (allowed && !allowed.some((one) => encode(one) === encode(value))) {
    return `at ${place}: expected one of ${encode(allowed)}`;
  }
  if (typeof value === "string") {
    // In code points, which is how the schema counts.
    return outside(keywords.minLength, keywords.maxLength, [...value].length, "characters", place);
  }
  if (typeof value === "number") {
    return outside(keywords.minimum, keywords.maximum, value, "", place);
  }
  if (Array.isArray(value)) return misfitOfItems(keywords, value, place);
  if (value !== null && typeof value === "object") return misfitOfProperties(keywords, value, place);
  return undefined;
}

function misfitOfItems(keywords: Keywords, items: Json[], place: string): string | undefined {
  const { items: schema, minItems, maxItems } = keywords;
  const count = outside(minItems, maxItems, items.length, "items", place);
  if (count !== undefined || schema === undefined) return count;
  return first(items.map((item, at) => () => misfit(schema, item, `${place}[${at}]`)));
}

function misfitOfProperties(
  { properties = {}, required = [], additionalProperties }: Keywords,
  object: JsonObject,
  place: string,
): string | undefined {
  const missing = required.find((name) => !Object.hasOwn(object, name));
  if (missing !== undefined) return `at ${place}: ${encode(missing)} is missing`;
  return first(
    Object.entries(object).map(([name, value]) => () => {
      const schema = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
      if (schema === false) return `at ${place}: ${encode(name)} is not known`;
      return typeof schema === "object" ? misfit(schema, value, `${place}.${name}`) : undefined;
    }),
  );
}

function outside(
  min = -Infinity,
  max = Infinity,
  found: number,
  unit: string,
  place: string,
): string | undefined {
  if (min <= found && found <= max) return undefined;
  const bound = found < min ? `at least ${min}` : `at most ${max}`;
  return `at ${place}: expected ${bound} ${unit}`.trimEnd() + `, found ${found}`;
}

function first(checks: (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const found = check();
    if (found !== undefined) return found;
  }
  return undefined;
}

function isOfType(value: Json, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  return typeOf(value) === type;
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
