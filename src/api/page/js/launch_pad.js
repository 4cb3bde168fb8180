// Starting a run by hand: a form from the schema of the input, or the input as JSON, and from each to the other.

import { parse } from './api.js';
import { whileBusy } from './busy.js';
import { fill } from './dom.js';
import { FieldError, markField, schemaForm } from './schema_form.js';
import { isPlain } from './schema_json.js';

/**
 * The form of a skill.
 * @param {object} app what a view is given
 * @param {string} name the skill
 * @param {object | undefined} descriptor what it says of itself
 * @returns {HTMLElement}
 */
export function launchPad(app, name, descriptor) {
  const { h } = app;
  const operations = descriptor?.operations ?? [];
  if (operations.length === 0) return inputForm(app, name, descriptor?.input_schema ?? null);
  const place = h('div', {});
  const select = h('select', { id: 'operation' },
    ...operations.map((operation, at) => h('option', { value: String(at) }, operation.name)));
  const show = () => {
    const operation = operations[Number(select.value)];
    place.replaceChildren(
      operation.description === '' ? '' : h('p', { class: 'field-hint' }, operation.description),
      inputForm(app, `${name}.${operation.name}`, operation.input_schema),
    );
  };
  select.addEventListener('change', show);
  show();
  return h('div', {}, h('div', { class: 'field' }, h('label', { for: 'operation' }, 'Operation'), select), place);
}

function inputForm(app, skillName, schema) {
  const { h } = app;
  const pad = {
    app,
    skillName,
    schema: isPlain(schema) ? schema : { type: 'object' },
    form: null,
    unmark: null,
    place: h('div', { class: 'pad-input' }),
    problem: h('p', { class: 'problem', role: 'alert', hidden: true }),
  };
  const raw = h('textarea', { id: 'raw-input', rows: 8, spellcheck: 'false', class: 'json' });
  pad.raw = raw;
  const ways = ['form', 'json'].map((way) => {
    const radio = h('input', { type: 'radio', name: 'input-way', id: `way-${way}`, value: way });
    radio.addEventListener('change', () => turn(pad, way));
    return radio;
  });
  pad.ways = ways;
  const start = h('button', { type: 'submit', class: 'primary' }, 'Start');
  const element = h('form', { class: 'pad', novalidate: true },
    h('fieldset', { class: 'ways' }, h('legend', {}, 'Input'),
      h('label', { for: 'way-form' }, ways[0], ' Form'),
      h('label', { for: 'way-json' }, ways[1], ' JSON')),
    pad.place, pad.problem, start);
  element.addEventListener('submit', (event) => {
    event.preventDefault();
    whileBusy(start, () => submit(pad)).catch((error) => complain(pad, error));
  });
  showForm(pad, undefined);
  return element;
}

function showForm(pad, value) {
  const { h } = pad.app;
  const onChange = () => complain(pad, null);
  const form = schemaForm(h, pad.schema, value, onChange);
  pad.form = form;
  pad.place.replaceChildren(form.element);
  pad.ways[0].checked = true;
}

function showJson(pad, value) {
  const { h } = pad.app;
  pad.form = null;
  pad.raw.value = JSON.stringify(value, null, 2);
  pad.place.replaceChildren(h('div', { class: 'field' }, h('label', { for: 'raw-input' }, 'Input as JSON'), pad.raw));
  pad.ways[1].checked = true;
}

/** Shows the same input the other way; where it cannot be read, says why and stays. */
function turn(pad, way) {
  try {
    if (way === 'json') showJson(pad, pad.form.read() ?? {});
    else showForm(pad, inputOf(pad.raw.value));
    complain(pad, null);
  } catch (error) {
    pad.ways[way === 'json' ? 0 : 1].checked = true;
    complain(pad, error);
  }
}

function inputOf(text) {
  const input = parse(text.trim() === '' ? '{}' : text);
  if (!isPlain(input)) throw new FieldError('', 'an object is expected');
  return input;
}

async function submit(pad) {
  const { app, skillName } = pad;
  const input = pad.form === null ? inputOf(pad.raw.value) : pad.form.read(true) ?? {};
  // JSON that a person typed goes as it is spelled.
  const spelled = pad.form === null && pad.raw.value.trim() !== '' ? pad.raw.value : JSON.stringify(input);
  const body = `{"skill_name":${JSON.stringify(skillName)},"input":${spelled}}`;
  const started = await app.api.startRun(body);
  app.say('The run is started.');
  // Whoever went elsewhere meanwhile stays there.
  if (pad.place.isConnected) app.go(`#/runs/${started.run_id}`);
}

function complain(pad, error) {
  const { problem, place, app } = pad;
  pad.unmark?.();
  pad.unmark = null;
  problem.hidden = error === null;
  fill(problem);
  if (error === null) return;
  if (!place.isConnected) return app.fail(error);
  fill(problem, `${error.message}${error.hint ? ` ${error.hint}` : ''}`);
  if (error.element) pad.unmark = markField(app.h, error);
}
