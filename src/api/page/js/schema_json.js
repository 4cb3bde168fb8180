// What a JSON Schema says of one value.

/** Steps into a schema by `$ref`, so that one that refers to itself comes to an end. */
const REFERENCES_MAX = 32;

/**
 * The schema of a value with references followed and a single alternative beside `null` taken.
 * @param {unknown} root the whole schema, into which references point
 * @param {unknown} schema
 * @returns {object}
 */
export function resolve(root, schema) {
  let found = schema;
  for (let steps = 0; steps < REFERENCES_MAX; steps += 1) {
    if (typeof found !== 'object' || found === null || Array.isArray(found)) return {};
    const next = referred(root, found) ?? onlyAlternative(found);
    if (next === undefined) return found;
    found = next;
  }
  return {};
}

function referred(root, schema) {
  if (typeof schema.$ref !== 'string') return undefined;
  if (schema.$ref === '#') return root;
  if (!schema.$ref.startsWith('#/')) return {};
  let at = root;
  for (const part of schema.$ref.slice(2).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return {};
    at = at[key];
  }
  return kept(schema, at);
}

function onlyAlternative(schema) {
  const alternatives = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (!Array.isArray(alternatives)) return undefined;
  const rest = alternatives.filter((one) => one?.type !== 'null');
  return rest.length === 1 ? kept(schema, rest[0]) : undefined;
}

/** What stands beside a reference describes the value better than what stands behind it. */
function kept(outer, inner) {
  if (typeof inner !== 'object' || inner === null) return {};
  const { title = inner.title, description = inner.description, default: preset = inner.default } = outer;
  const rest = Object.entries({ title, description, default: preset });
  return { ...inner, ...Object.fromEntries(rest.filter(([, value]) => value !== undefined)) };
}

/**
 * Which kind of field asks for a value.
 * @param {object} schema a resolved one
 * @returns {'enum'|'object'|'array'|'string'|'number'|'integer'|'boolean'|'json'}
 */
export function kindOf(schema) {
  if (Array.isArray(schema.enum) && schema.enum.every((one) => typeof one !== 'object')) return 'enum';
  const types = [schema.type].flat().filter((type) => type !== 'null');
  const [type] = types;
  if (types.length !== 1) return 'json';
  if (type === 'object') return isPlain(schema.properties) ? 'object' : 'json';
  if (type === 'array') return isPlain(schema.items) ? 'array' : 'json';
  return ['string', 'number', 'integer', 'boolean'].includes(type) ? type : 'json';
}

/** Whether a value is an object with members. */
export function isPlain(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value);
}

/** Whether a value is a number that JavaScript cannot hold, and that stays as it is spelled. */
export function isRaw(value) {
  return typeof JSON.isRawJSON === 'function' && JSON.isRawJSON(value);
}

/** A number as it is spelled, also one that JavaScript cannot hold. */
export function spelled(number) {
  return isRaw(number) ? number.rawJSON : String(number);
}

/**
 * Whether a field of that kind can show the value; otherwise it is shown as JSON.
 * @param {string} kind as {@link kindOf} gives it
 * @param {object} schema
 * @param {unknown} value `undefined` is none yet, which fits everywhere
 */
export function fits(kind, schema, value) {
  if (value === undefined) return true;
  switch (kind) {
    case 'enum': return schema.enum.includes(value);
    case 'object': return isPlain(value);
    case 'array': return Array.isArray(value);
    case 'integer': return Number.isSafeInteger(value);
    case 'json': return true;
    default: return typeof value === kind;
  }
}
