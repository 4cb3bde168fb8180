// Executions of agents: which there are, a form to launch one, and the conversation with one.

import { chat } from '../chat.js';
import { line } from '../dom.js';
import { launchForm } from '../launch_form.js';

/** Executions of one page. */
const PAGE = 50;
/** Milliseconds between two looks at the list: no stream tells when a turn of any execution begins. */
const LOOK_INTERVAL_MS = 5_000;
/** Milliseconds within which several events make one look. Protects the daemon. */
const SETTLE_MS = 300;
/** Characters of a session's name in a row. */
const SESSION_CHARS_MAX = 40;
const STATUSES = ['pending', 'starting', 'ready', 'running', 'completed', 'failed', 'stopped'];

export default {
  title(params) {
    return params.id === null ? 'Executions' : `Execution ${params.id}`;
  },
  mount(root, params, app) {
    return params.id === null ? list(root, params, app) : chat(root, params.id, app);
  },
};

function list(root, params, app) {
  const { h } = app;
  const aborting = new AbortController();
  const shown = { pages: 1, status: params.query.get('status') ?? '', session: params.query.get('session') ?? '' };
  const body = h('tbody', {});
  const more = h('button', { type: 'button', class: 'quiet', hidden: true }, 'Show more');
  const empty = h('p', { hidden: true }, 'There is no such execution.');
  let looking = null;
  let isAsked = false;
  // One look at a time, and one more when something happened meanwhile.
  const look = () => {
    isAsked = true;
    looking ??= (async () => {
      while (isAsked) {
        isAsked = false;
        await draw();
      }
    })().catch(app.fail).finally(() => { looking = null; });
  };
  const draw = async () => {
    const { executions, hasMore } = await pagesOf(app, shown, aborting.signal);
    const focused = document.activeElement?.closest?.('tr')?.dataset.id;
    body.replaceChildren(...executions.map((execution) => row(app, execution)));
    if (focused) body.querySelector(`tr[data-id="${CSS.escape(focused)}"] a`)?.focus();
    more.hidden = !hasMore;
    empty.hidden = executions.length > 0;
  };
  let settling = null;
  const soon = () => {
    settling ??= setTimeout(() => { settling = null; look(); }, SETTLE_MS);
  };
  more.addEventListener('click', () => { shown.pages += 1; look(); });
  root.append(
    h('h1', {}, 'Executions'),
    h('details', { open: params.query.has('agent') || params.query.has('prior') },
      h('summary', {}, 'Launch an agent'), launchForm(app, params.query)),
    filters(app, shown),
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Executions' },
      h('table', { class: 'executions' },
        h('thead', {}, h('tr', {}, ...['Execution', 'Agent', 'Status', 'Mode', 'Prompts', 'Started', 'Session']
          .map((name) => h('th', { scope: 'col' }, name)))), body)),
    empty, more);
  look();
  const unsubscribe = app.hub.subscribe({ on: soon, missed: soon });
  const interval = setInterval(() => { if (!document.hidden) look(); }, LOOK_INTERVAL_MS);
  return () => {
    aborting.abort();
    unsubscribe();
    clearInterval(interval);
    clearTimeout(settling);
  };
}

async function pagesOf(app, { pages, status, session }, signal) {
  const executions = [];
  let cursor = null;
  for (let page = 0; page < pages; page += 1) {
    const query = new URLSearchParams({ limit: String(PAGE) });
    if (status !== '') query.set('status', status);
    if (session !== '') query.set('session_id', session);
    if (cursor !== null) query.set('cursor', cursor);
    const answer = await app.api.get(`/api/agent/executions?${query}`, { signal });
    executions.push(...answer.executions);
    cursor = answer.next_cursor ?? null;
    if (cursor === null) break;
  }
  return { executions, hasMore: cursor !== null };
}

function filters(app, shown) {
  const { h } = app;
  const status = h('select', { id: 'execution-status' }, h('option', { value: '' }, 'any'),
    ...STATUSES.map((one) => h('option', { value: one }, one)));
  status.value = STATUSES.includes(shown.status) ? shown.status : '';
  const session = h('input', { id: 'execution-session', type: 'text', spellcheck: 'false' });
  session.value = shown.session;
  const go = () => {
    const query = new URLSearchParams();
    if (status.value !== '') query.set('status', status.value);
    if (session.value !== '') query.set('session', session.value);
    const text = query.toString();
    app.go(`#/executions${text === '' ? '' : `?${text}`}`);
  };
  status.addEventListener('change', go);
  session.addEventListener('change', go);
  const form = h('form', { class: 'filters', role: 'search', 'aria-label': 'Filter executions' },
    h('label', { for: 'execution-status' }, 'Status'), status,
    h('label', { for: 'execution-session' }, 'Session'), session);
  form.addEventListener('submit', (event) => { event.preventDefault(); go(); });
  return form;
}

function row({ h, format }, execution) {
  const child = execution.parent_execution_id === undefined ? '' : h('span', { class: 'dim', title: `launched by ${execution.parent_execution_id}` }, '↳ ');
  return h('tr', { dataset: { id: execution.id } },
    h('th', { scope: 'row' }, child, h('a', { href: `#/executions/${execution.id}`, title: execution.id }, format.short(execution.id))),
    h('td', {}, execution.agent_profile_id),
    h('td', {}, h('span', { class: `chip ${execution.status}` }, execution.status)),
    h('td', {}, execution.mcp_mode),
    h('td', { class: 'number' }, format.count(execution.prompt_generation)),
    h('td', {}, h('time', { datetime: execution.started_at, title: execution.started_at }, format.ago(execution.started_at))),
    h('td', {}, line(execution.session_id, SESSION_CHARS_MAX)));
}
