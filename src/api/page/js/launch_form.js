// The form that launches an agent.

import { parse } from './api.js';

const MODES = ['task', 'config', 'office'];

/**
 * @param {object} app what a view is given
 * @param {URLSearchParams} query what the form is filled with: `agent`, `prior`, `session`
 * @returns {HTMLElement}
 */
export function launchForm(app, query) {
  const { h } = app;
  const known = h('datalist', { id: 'known-agents' });
  const field = (name, label, input, hint = '') => {
    input.id = `launch-${name}`;
    if (hint !== '') input.setAttribute('aria-describedby', `launch-${name}-hint`);
    return h('div', { class: 'field' }, h('label', { for: input.id }, label), input,
      hint === '' ? '' : h('p', { class: 'field-hint', id: `launch-${name}-hint` }, hint));
  };
  const input = (value = '') => h('input', { type: 'text', spellcheck: 'false', value });
  const agent = h('input', { type: 'text', list: 'known-agents', required: true, spellcheck: 'false', value: query.get('agent') ?? '' });
  const prompt = h('textarea', { rows: 3 });
  const mode = h('select', {}, ...MODES.map((one) => h('option', { value: one }, one)));
  const session = input(query.get('session') ?? '');
  const prior = input(query.get('prior') ?? '');
  const folder = input();
  const ephemeral = h('input', { type: 'checkbox' });
  const retry = h('input', { type: 'checkbox' });
  const executor = input();
  const metadata = h('textarea', { rows: 3, spellcheck: 'false', class: 'json' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const launch = h('button', { type: 'submit', class: 'primary' }, 'Launch');
  const form = h('form', { class: 'pad', novalidate: true },
    known,
    field('agent', 'Agent', agent, 'The name of an installed skill that is an agent.'),
    field('prompt', 'First prompt', prompt, 'None is sent when it is empty.'),
    field('mode', 'Mode of its tools', mode),
    h('details', { open: query.has('prior') }, h('summary', {}, 'More'),
      field('session', 'Session', session, 'A session has one execution at a time.'),
      field('prior', 'Take up', prior, 'The run of an execution that was interrupted.'),
      check(h, retry, 'launch-retry', 'Make calls again that may have had their effect'),
      field('folder', 'Folder', folder, 'Below one of runtime.workspaces.'),
      check(h, ephemeral, 'launch-ephemeral', 'A folder that goes with the execution'),
      field('executor', 'Backend', executor, 'The configured one when it is empty.'),
      field('metadata', 'Metadata (JSON)', metadata, 'An object that the agent is told.')),
    problem, launch);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    launch.disabled = true;
    problem.hidden = true;
    try {
      const launched = await app.api.post('/api/agent/executions', body({
        agent: agent.value.trim(), prompt: prompt.value, mode: mode.value, session: session.value.trim(),
        prior: prior.value.trim(), retry: retry.checked, folder: folder.value.trim(),
        ephemeral: ephemeral.checked, executor: executor.value.trim(), metadata: metadata.value.trim(),
      }));
      app.say('The agent is launched.');
      app.go(`#/executions/${launched.id}`);
    } catch (error) {
      problem.hidden = false;
      problem.replaceChildren(app.h('span', {}, `${error.message}${error.hint ? ` ${error.hint}` : ''}`));
      if (error.problem?.execution_id) {
        problem.append(' ', h('a', { href: `#/executions/${error.problem.execution_id}` }, 'Show that execution'));
      }
    } finally {
      launch.disabled = false;
    }
  });
  app.api.get('/api/skills')
    .then(({ skills }) => known.append(...skills.filter((skill) => skill.enabled).map((skill) => h('option', { value: skill.name }))))
    .catch(app.fail);
  return form;
}

function check(h, input, id, label) {
  input.id = id;
  return h('div', { class: 'field field-check' }, input, h('label', { for: id }, label));
}

function body({ agent, prompt, mode, session, prior, retry, folder, ephemeral, executor, metadata }) {
  const given = metadata === '' ? {} : parse(metadata);
  const request = { ...given.launch_request };
  if (session !== '') request.session_id = session;
  if (retry) request.retry_ambiguous = true;
  return {
    agent_profile_id: agent,
    mcp_mode: mode,
    ...(prompt === '' ? {} : { prompt }),
    ...(prior === '' ? {} : { prior_session: prior }),
    ...(executor === '' ? {} : { executor_id: executor }),
    ...(folder === '' && !ephemeral ? {} : { workspace: { path: folder, is_ephemeral: ephemeral } }),
    metadata: Object.keys(request).length === 0 ? given : { ...given, launch_request: request },
  };
}
