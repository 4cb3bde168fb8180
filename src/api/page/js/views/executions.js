// Executions of agents: which there are, a form to launch one, and the conversation with one.

import { chat } from '../chat.js';
import { line } from '../dom.js';
import { launchForm } from '../launch_form.js';

/** Executions of one page. */
const PAGE_EXECUTIONS = 50;
/** Pages that are shown at most; filters find what is on later ones. Protects the daemon, which is asked for all of them anew. */
const PAGES_MAX = 20;
/** Milliseconds between two looks at the list: no stream tells when a turn of any execution begins. */
const LOOK_INTERVAL_MS = 5_000;
/** Milliseconds within which several events make one look. Protects the daemon. */
const SETTLE_MS = 300;
/** Characters of why the list cannot be read. */
const NOTE_CHARS_MAX = 300;
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
  const launch = h('details', {}, h('summary', {}, 'Launch an agent'));
  const fields = filters(app);
  const table = executionTable(app);
  root.append(h('h1', {}, 'Executions'), launch, fields.element, ...table.elements);
  // What is typed in the form stays when other executions are listed.
  const show = ({ query }, isFirst) => {
    const isFilled = query.has('agent') || query.has('prior');
    if (isFirst || isFilled) launch.replaceChildren(launch.firstElementChild, launchForm(app, query));
    if (isFilled) launch.open = true;
    const wanted = { status: query.get('status') ?? '', session: query.get('session') ?? '' };
    fields.show(wanted);
    table.show(wanted);
  };
  show(params, true);
  const unsubscribe = app.hub.subscribe({ on: table.changed, missed: table.changed });
  const interval = setInterval(() => { if (!document.hidden) table.look(); }, LOOK_INTERVAL_MS);
  const unmount = () => {
    unsubscribe();
    clearInterval(interval);
    table.close();
  };
  unmount.update = (next) => show(next, false);
  return unmount;
}

/** The table of those that are wanted, which is kept as they are. */
function executionTable(app) {
  const { h } = app;
  const body = h('tbody', {});
  const more = h('button', { type: 'button', class: 'quiet', hidden: true, onclick: () => reader.more() }, 'Show more');
  const note = h('p', { hidden: true });
  const reader = executionReader(app, (executions, { hasMore, isFull, wanted, error = null }) => {
    const focused = document.activeElement?.closest?.('tr')?.dataset.id;
    body.replaceChildren(...executions.map((execution) => row(app, execution)));
    if (focused) body.querySelector(`tr[data-id="${CSS.escape(focused)}"] a`)?.focus();
    more.hidden = !hasMore || isFull;
    note.hidden = executions.length > 0 && !(hasMore && isFull) && error === null;
    note.textContent = error !== null ? `Executions cannot be read: ${line(error.message, NOTE_CHARS_MAX)}`
      : executions.length > 0 ? `Only the newest ${executions.length} are shown. Filters find others.` : emptyWords(wanted);
  });
  return {
    ...reader,
    elements: [
      h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Executions' },
        h('table', { class: 'executions' },
          h('thead', {}, h('tr', {}, ...['Execution', 'Agent', 'Status', 'Mode', 'Prompts', 'Started', 'Session']
            .map((name) => h('th', { scope: 'col' }, name)))), body)),
      note, more,
    ],
  };
}

/** Reads those that are wanted and has them drawn: `look` asks for the newest anew, `changed` for all that are shown. */
function executionReader(app, draw) {
  let aborting = new AbortController();
  let wanted = { status: '', session: '' };
  let executions = [];
  let pages = 1;
  let hasMore = false;
  let isStale = false;
  let isAsked = false;
  let looking = null;
  let settling = null;

  // One look at a time, and one more when something happened meanwhile.
  function look() {
    isAsked = true;
    looking ??= (async () => {
      while (isAsked) {
        isAsked = false;
        executions = await read(aborting.signal);
        draw(executions, { hasMore, isFull: pages >= PAGES_MAX, wanted });
      }
    })().catch((error) => {
      isStale = true;
      if (error.name !== 'AbortError') draw(executions, { hasMore, isFull: pages >= PAGES_MAX, wanted, error });
    }).finally(() => {
      looking = null;
      if (isAsked) look();
    });
  }

  async function read(signal) {
    if (!isStatus(wanted.status)) throw new Error(`there is no status “${line(wanted.status, SESSION_CHARS_MAX)}”`);
    const isWhole = isStale;
    isStale = false;
    const first = await pageOf(app, wanted, null, signal);
    const found = first.executions;
    const isSame = found.every(({ id }, place) => executions[place]?.id === id);
    if (!isWhole && isSame && first.next_cursor && executions.length > found.length) return [...found, ...executions.slice(found.length)];
    const cursor = await append(found, first.next_cursor ?? null, pages - 1, (after) => pageOf(app, wanted, after, signal));
    hasMore = cursor !== null;
    return found;
  }

  function all() {
    isStale = true;
    look();
  }

  return {
    look,
    changed() {
      settling ??= setTimeout(() => { settling = null; all(); }, SETTLE_MS);
    },
    more() {
      pages += 1;
      all();
    },
    show(next) {
      // What was asked for before is not what is wanted now.
      aborting.abort();
      aborting = new AbortController();
      wanted = next;
      pages = 1;
      all();
    },
    close() {
      aborting.abort();
      clearTimeout(settling);
    },
  };
}

/** Appends so many pages to those that were found; gives where the next one begins, or `null`. */
async function append(found, cursor, pages, read) {
  let after = cursor;
  for (let page = 0; page < pages && after !== null; page += 1) {
    const next = await read(after);
    found.push(...next.executions);
    after = next.next_cursor ?? null;
  }
  return after;
}

function isStatus(status) {
  return status === '' || STATUSES.includes(status);
}

function emptyWords({ status, session }) {
  return status === '' && session === '' ? 'No agent was launched yet.' : 'No execution fits these filters.';
}

function pageOf(app, { status, session }, cursor, signal) {
  const query = new URLSearchParams({ limit: String(PAGE_EXECUTIONS) });
  if (status !== '') query.set('status', status);
  if (session !== '') query.set('session_id', session);
  if (cursor !== null) query.set('cursor', cursor);
  return app.api.get(`/api/agent/executions?${query}`, { signal });
}

function filters(app) {
  const { h } = app;
  const status = h('select', { id: 'execution-status' }, h('option', { value: '' }, 'any'),
    ...STATUSES.map((one) => h('option', { value: one }, one)));
  const session = h('input', { id: 'execution-session', type: 'text', spellcheck: 'false' });
  const go = () => {
    const query = new URLSearchParams();
    if (status.value !== '') query.set('status', status.value);
    if (session.value.trim() !== '') query.set('session', session.value.trim());
    const text = query.toString();
    app.go(`#/executions${text === '' ? '' : `?${text}`}`, { replace: true });
  };
  status.addEventListener('change', go);
  session.addEventListener('change', go);
  const element = h('form', { class: 'filters', role: 'search', 'aria-label': 'Filter executions' },
    h('label', { for: 'execution-status' }, 'Status'), status,
    h('label', { for: 'execution-session' }, 'Session'), session);
  element.addEventListener('submit', (event) => { event.preventDefault(); go(); });
  return {
    element,
    show(wanted) {
      status.value = STATUSES.includes(wanted.status) ? wanted.status : '';
      if (document.activeElement !== session) session.value = wanted.session;
    },
  };
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
