// The form that launches an agent.

import { parse } from './api.js';
import { whileBusy } from './busy.js';
import { fill } from './dom.js';
import { isPlain } from './schema_json.js';

/** The modes that the tools of an execution can be in. */
export const MODES = ['task', 'config', 'office'];

/**
 * @param {object} app what a view is given
 * @param {URLSearchParams} query what the form is filled with: `agent`, `mode`, `prior`, `session`
 * @returns {HTMLElement}
 */
export function launchForm(app, query) {
  const { h } = app;
  const fields = fieldsOf(h, query);
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const launch = h('button', { type: 'submit', class: 'primary' }, 'Launch');
  const known = h('datalist', { id: 'known-agents' });
  const form = h('form', { class: 'pad', novalidate: true }, known, layout(h, fields, query.has('prior')), problem, launch);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    problem.hidden = true;
    whileBusy(launch, async () => {
      const launched = await app.api.post('/api/agent/executions', body(fields));
      app.say('The agent is launched.');
      // Whoever went elsewhere meanwhile stays there.
      if (form.isConnected) app.go(`#/executions/${launched.id}`);
    }).catch((error) => {
      if (!form.isConnected) return app.fail(error);
      const running = error.problem?.execution_id;
      problem.hidden = false;
      return fill(problem, `${error.message}${error.hint ? ` ${error.hint}` : ''}`,
        running ? [' ', h('a', { href: `#/executions/${running}` }, 'Show that execution')] : null);
    });
  });
  app.api.get('/api/skills')
    .then(({ skills }) => known.append(...skills
      .filter((skill) => skill.enabled && skill.component_digest !== undefined)
      .map((skill) => h('option', { value: skill.name }))))
    .catch(app.fail);
  return form;
}

function fieldsOf(h, query) {
  const input = (value) => h('input', { type: 'text', spellcheck: 'false', value: value ?? '' });
  const mode = h('select', {}, ...MODES.map((one) => h('option', { value: one }, one)));
  if (MODES.includes(query.get('mode'))) mode.value = query.get('mode');
  return {
    agent: h('input', { type: 'text', list: 'known-agents', required: true, spellcheck: 'false', value: query.get('agent') ?? '' }),
    prompt: h('textarea', { rows: 3 }),
    mode,
    session: input(query.get('session')),
    prior: input(query.get('prior')),
    folder: input(),
    ephemeral: h('input', { type: 'checkbox' }),
    retry: h('input', { type: 'checkbox' }),
    executor: input(),
    metadata: h('textarea', { rows: 3, spellcheck: 'false', class: 'json' }),
  };
}

function layout(h, fields, isMoreOpen) {
  const field = (name, label, hint = '') => {
    const input = fields[name];
    input.id = `launch-${name}`;
    if (hint !== '') input.setAttribute('aria-describedby', `launch-${name}-hint`);
    return h('div', { class: 'field' }, h('label', { for: input.id }, label), input,
      hint === '' ? '' : h('p', { class: 'field-hint', id: `launch-${name}-hint` }, hint));
  };
  return [
    field('agent', 'Agent', 'An installed skill that is an agent. All skills that can be run are suggested: which of them are agents is not known here.'),
    field('prompt', 'First prompt', 'None is sent when it is empty.'),
    field('mode', 'Mode of its tools'),
    h('details', { open: isMoreOpen }, h('summary', {}, 'More'),
      field('session', 'Session', 'A session has one execution at a time.'),
      field('prior', 'Take up', 'The run of an execution that was interrupted or stopped.'),
      check(h, fields.retry, 'launch-retry', 'Make calls again that may have had their effect'),
      field('folder', 'Folder', 'Below one of runtime.workspaces.'),
      check(h, fields.ephemeral, 'launch-ephemeral', 'A folder that goes with the execution'),
      field('executor', 'Backend', 'The configured one when it is empty.'),
      field('metadata', 'Metadata (JSON)', 'An object that the agent is told.')),
  ];
}

function check(h, input, id, label) {
  input.id = id;
  return h('div', { class: 'field field-check' }, input, h('label', { for: id }, label));
}

function body({ agent, prompt, mode, session, prior, retry, folder, ephemeral, executor, metadata }) {
  const typed = ({ value }) => value.trim();
  const given = typed(metadata) === '' ? {} : parse(metadata.value);
  if (!isPlain(given)) throw new Error('Metadata: an object is expected');
  const base = given.launch_request ?? {};
  if (!isPlain(base)) throw new Error('launch_request of the metadata: an object is expected');
  const request = { ...base };
  if (typed(session) !== '') request.session_id = typed(session);
  if (retry.checked) request.retry_ambiguous = true;
  const hasFolder = typed(folder) !== '' || ephemeral.checked;
  return {
    agent_profile_id: typed(agent),
    mcp_mode: mode.value,
    ...(prompt.value === '' ? {} : { prompt: prompt.value }),
    ...(typed(prior) === '' ? {} : { prior_session: typed(prior) }),
    ...(typed(executor) === '' ? {} : { executor_id: typed(executor) }),
    ...(hasFolder ? { workspace: { path: typed(folder), is_ephemeral: ephemeral.checked } } : {}),
    metadata: Object.keys(request).length === 0 ? given : { ...given, launch_request: request },
  };
}
