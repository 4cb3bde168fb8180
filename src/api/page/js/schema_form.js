// A form made from a JSON Schema. What the form cannot ask for is asked for as JSON, so that there is always a way.

import { parse } from './api.js';
import { line } from './dom.js';
import { boundsInWords, unmetBounds } from './schema_bounds.js';
import { fits, isPlain, kindOf, resolve } from './schema_json.js';

/** Levels that are drawn as fields; what is deeper is typed as JSON. Protects the page from a schema without an end. */
const LEVELS_MAX = 8;
/** Fields of one form that are drawn. Protects the page from a schema that is as large as a skill likes, or grows by itself. */
const FIELDS_MAX = 300;
/** Choices of one field that are drawn; of more, one is typed as JSON. Protects the page likewise. */
const CHOICES_MAX = 500;
/** Characters of a name and of a description that are shown. Protect the page likewise. */
const NAME_CHARS_MAX = 120;
const HINT_CHARS_MAX = 1_000;
/** Entries of a list that are drawn; a longer one is typed as JSON. */
const ENTRIES_MAX = 200;
/** Characters from which a text has several lines. */
const LONG_CHARS = 80;

let numbered = 0;

/** A value that cannot be read from a field, or that its schema does not allow: where it is, and why. */
export class FieldError extends Error {
  constructor(path, message, element) {
    super(path === '' ? message : `${path}: ${message}`);
    this.element = element;
    this.reason = message;
  }
}

/**
 * Says at its field what is wrong, and leads whoever fills the form in there.
 * @param {Function} h makes elements
 * @param {FieldError} error
 * @returns {() => void} takes it back
 */
export function markField(h, { element, reason }) {
  numbered += 1;
  const said = h('p', { class: 'problem field-problem', id: `problem-${numbered}` }, reason);
  const describedBy = element.getAttribute('aria-describedby');
  element.after(said);
  element.setAttribute('aria-invalid', 'true');
  element.setAttribute('aria-describedby', [describedBy, said.id].filter(Boolean).join(' '));
  element.focus();
  return () => {
    said.remove();
    element.removeAttribute('aria-invalid');
    if (describedBy === null) element.removeAttribute('aria-describedby');
    else element.setAttribute('aria-describedby', describedBy);
  };
}

/**
 * A form for a value.
 * @param {Function} h makes elements
 * @param {object} root the schema
 * @param {unknown} value what the form shows first; `undefined`: what the schema presets
 * @param {() => void} onChange called after each change by a person
 * @returns {{element: HTMLElement, read: (isChecked?: boolean) => unknown}} `read` throws a {@link FieldError} where there
 * is no value, and, if it is to be checked, where the value is none that its schema allows
 */
export function schemaForm(h, root, value, onChange) {
  const context = { h, root, onChange, budget: { fields: FIELDS_MAX } };
  return fieldOf(context, root, value, { path: '', level: 0, required: true, label: '' });
}

function fieldOf(context, unresolved, given, place) {
  const resolved = resolve(context.root, unresolved);
  const isConst = Object.hasOwn(resolved, 'const') && typeof resolved.const !== 'object';
  const schema = isConst ? { ...resolved, enum: [resolved.const] } : resolved;
  const preset = schema.default ?? (isConst && place.required ? schema.const : undefined);
  const value = given === undefined ? preset : given;
  const kind = kindOf(schema);
  const isDrawn = place.level < LEVELS_MAX && fits(kind, schema, value)
    && !(kind === 'array' && (value?.length ?? 0) > ENTRIES_MAX)
    && !(kind === 'enum' && schema.enum.length > CHOICES_MAX)
    && !(kind === 'object' && context.budget.fields <= 0);
  const make = isDrawn ? FIELDS[kind] : jsonField;
  return make(context, schema, value, place);
}

const FIELDS = {
  object: objectField,
  array: arrayField,
  enum: enumField,
  boolean: booleanField,
  string: textField,
  number: numberField,
  integer: numberField,
  json: jsonField,
};

/** A label, its field and what the schema says about it, tied together for whoever hears the page. */
function labelled({ h }, schema, place, input) {
  numbered += 1;
  const id = `field-${numbered}`;
  input.id = id;
  const name = schema.title ?? (place.label === '' ? 'Value' : place.label);
  const hint = hintOf(h, schema, `${id}-hint`);
  if (hint !== '') input.setAttribute('aria-describedby', `${id}-hint`);
  input.dataset.path = place.path;
  return h('div', { class: 'field' }, h('label', { for: id }, line(name, NAME_CHARS_MAX), requiredMark(h, place)), hint, input);
}

/** An entry of a list is there or removed, and needs no mark. */
function requiredMark(h, place) {
  return place.required && !place.isEntry ? h('span', { class: 'field-required' }, ' (required)') : '';
}

/** What the schema says about a value beside its type, or nothing. */
function hintOf(h, schema, id) {
  const bounds = boundsInWords(kindOf(schema), schema);
  const parts = [schema.description, bounds].filter((part) => typeof part === 'string' && part !== '');
  if (parts.length === 0) return '';
  return h('p', { class: 'field-hint', id }, parts.map((part) => h('span', { class: 'field-hint-part' }, line(part, HINT_CHARS_MAX))));
}

/** The value, if it need not keep to the bounds of its schema, or does. */
function bounded(isChecked, schema, value, place, element) {
  const unmet = isChecked ? unmetBounds(kindOf(schema), schema, value) : null;
  if (unmet !== null) throw new FieldError(place.path, unmet, element);
  return value;
}

function textField(context, schema, value, place) {
  const { h, onChange } = context;
  const isLong = (schema.maxLength ?? 0) > LONG_CHARS || (value ?? '').length > LONG_CHARS
    || (value ?? '').includes('\n');
  const input = h(isLong ? 'textarea' : 'input', { ...(isLong ? { rows: 4 } : { type: 'text' }), spellcheck: 'false' });
  input.value = value ?? '';
  let isTouched = value !== undefined;
  input.addEventListener('input', () => {
    isTouched = place.required || input.value !== '';
    onChange();
  });
  const read = (isChecked) => (input.value === '' && !isTouched && !place.required
    ? undefined
    : bounded(isChecked, schema, input.value, place, input));
  return { element: labelled(context, schema, place, input), read };
}

function numberField(context, schema, value, place) {
  const { h, onChange } = context;
  const input = h('input', { type: 'text', inputmode: schema.type === 'integer' ? 'numeric' : 'decimal' });
  input.value = value === undefined ? '' : String(value);
  input.addEventListener('input', onChange);
  const read = (isChecked) => {
    const text = input.value.trim();
    if (text === '' && !place.required) return undefined;
    const isInteger = kindOf(schema) === 'integer';
    if (!(isInteger ? /^-?[0-9]+$/ : /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/).test(text)) {
      throw new FieldError(place.path, `${isInteger ? 'a whole number' : 'a number'} is expected`, input);
    }
    // The digits go to the skill as they were typed, zeros in front apart.
    return bounded(isChecked, schema, parse(text.replace(/^(-?)0+(?=[0-9])/, '$1')), place, input);
  };
  return { element: labelled(context, schema, place, input), read };
}

function enumField(context, schema, value, place) {
  return choice(context, schema, value, place, schema.enum.map((one) => [one, line(one, NAME_CHARS_MAX)]));
}

function booleanField(context, schema, value, place) {
  return choice(context, schema, value, place, [[true, 'yes'], [false, 'no']]);
}

function choice(context, schema, value, place, values) {
  const { h, onChange } = context;
  const select = h('select', {});
  if (!place.required || value === undefined) select.append(h('option', { value: '' }, '(not set)'));
  values.forEach(([one, label], at) => {
    const option = h('option', { value: String(at) }, label);
    option.selected = one === value;
    select.append(option);
  });
  select.addEventListener('change', onChange);
  const read = () => {
    if (select.value !== '') return values[Number(select.value)][0];
    if (place.required) throw new FieldError(place.path, 'a choice is expected', select);
    return undefined;
  };
  return { element: labelled(context, schema, place, select), read };
}

function jsonField(context, schema, value, place) {
  const { h, onChange } = context;
  const input = h('textarea', { rows: 4, spellcheck: 'false', class: 'json' });
  input.value = value === undefined ? '' : JSON.stringify(value, null, 2);
  input.addEventListener('input', onChange);
  const read = () => {
    if (input.value.trim() === '') {
      if (place.required) throw new FieldError(place.path, 'JSON is expected', input);
      return undefined;
    }
    try {
      return parse(input.value);
    } catch (error) {
      throw new FieldError(place.path, error.message, input);
    }
  };
  const titled = { ...schema, title: `${schema.title ?? (place.label || 'Value')} (JSON)` };
  return { element: labelled(context, titled, place, input), read };
}

function group({ h }, schema, place, ...children) {
  const name = schema.title ?? place.label;
  if (place.level === 0) return h('div', { class: 'field-group' }, ...children);
  numbered += 1;
  const hint = hintOf(h, schema, `group-${numbered}-hint`);
  return h('fieldset', { class: 'field-group', 'aria-describedby': hint === '' ? null : hint.id },
    h('legend', {}, line(name, NAME_CHARS_MAX), requiredMark(h, place)), hint, ...children);
}

function objectField(context, schema, value, place) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const names = Object.keys(schema.properties);
  // All of one object come before what is inside of them.
  const drawn = names.slice(0, Math.max(0, context.budget.fields));
  context.budget.fields -= drawn.length;
  let isTouched = value !== undefined;
  const inside = { ...context, onChange: () => { isTouched = true; context.onChange(); } };
  const fields = drawn.map((name) => [name, fieldOf(inside, schema.properties[name], ownOf(value, name), {
    path: place.path === '' ? name : `${place.path}.${name}`,
    level: place.level + 1,
    required: required.has(name),
    label: name,
  })]);
  // Members that the form has no field for are kept as they are.
  const rest = Object.entries(value ?? {}).filter(([name]) => !drawn.includes(name));
  const read = (isChecked) => {
    if (!place.required && !isTouched) return undefined;
    const entries = fields.map(([name, field]) => [name, field.read(isChecked)]);
    return Object.fromEntries([...entries.filter(([, one]) => one !== undefined), ...rest]);
  };
  const note = names.length > drawn.length
    ? context.h('p', { class: 'field-hint' }, `${names.length - drawn.length} further members can be set as JSON.`) : '';
  return { element: group(context, schema, place, ...fields.map(([, field]) => field.element), note), read };
}

function ownOf(value, name) {
  return isPlain(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function arrayField(context, schema, value, place) {
  const { h, onChange } = context;
  const entries = [];
  const list = h('ol', { class: 'field-list' });
  const add = h('button', { type: 'button' }, `Add to ${place.label || 'the list'}`);
  const isFull = () => entries.length >= ENTRIES_MAX;
  const tellFull = () => add.setAttribute('aria-disabled', String(isFull()));
  const append = (given) => {
    const at = entries.length;
    const field = fieldOf(context, schema.items, given, {
      path: `${place.path}[${at}]`, level: place.level + 1, required: true, isEntry: true, label: `${place.label || 'Entry'} ${at + 1}`,
    });
    const remove = h('button', { type: 'button', 'aria-label': `Remove ${place.label || 'entry'} ${at + 1}` }, 'Remove');
    const item = h('li', {}, field.element, remove);
    const entry = { field, item };
    remove.addEventListener('click', () => {
      entries.splice(entries.indexOf(entry), 1);
      item.remove();
      tellFull();
      add.focus();
      onChange();
    });
    entries.push(entry);
    list.append(item);
    tellFull();
    return item;
  };
  (value ?? []).forEach(append);
  let isTouched = value !== undefined;
  add.addEventListener('click', () => {
    if (isFull()) return;
    isTouched = true;
    append(undefined).querySelector('input, select, textarea, button')?.focus();
    onChange();
  });
  const read = (isChecked) => {
    if (entries.length === 0 && !isTouched && !place.required) return undefined;
    return bounded(isChecked, schema, entries.map(({ field }) => field.read(isChecked)), place, add);
  };
  return { element: group(context, schema, { ...place, level: Math.max(place.level, 1) }, list, add), read };
}
