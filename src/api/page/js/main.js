// The frame of the page: which view is shown, the header, and what is said to whoever cannot see it.

import { createApi } from './api.js';
import { append, fill, h, line, text, visible } from './dom.js';
import * as format from './format.js';
import { createHub } from './hub.js';
import { createNotice } from './notice.js';
import { createPending } from './pending.js';
import { askToken } from './token.js';
import { createTray } from './tray.js';
import approvals from './views/approvals.js';
import executions from './views/executions.js';
import health from './views/health.js';
import run from './views/run.js';
import runs from './views/runs.js';
import skills from './views/skills.js';

const SECTIONS = [
  { path: 'runs', label: 'Runs', view: runs, one: run },
  { path: 'approvals', label: 'Approvals', view: approvals },
  { path: 'executions', label: 'Executions', view: executions, one: executions },
  { path: 'skills', label: 'Skills', view: skills, one: skills },
  { path: 'health', label: 'Health', view: health },
];
const THEME_KEY = 'skillrun.theme';
const THEMES = ['auto', 'light', 'dark'];
/** Milliseconds that a failure is shown. */
const FAILED_MS = 12_000;

const said = document.getElementById('said');
const failed = document.getElementById('failed');
const main = document.getElementById('main');
let failedTimer = null;
let failedWords = null;

/** Says something that needs no answer. */
function say(words) {
  said.textContent = visible(words);
}

/** Shows an error, with its hint and the id under which the log has more. */
function fail(error) {
  // For want of a token nothing can be shown, which the notice says.
  if (error?.name === 'AbortError' || error?.status === 401) return;
  const hide = () => {
    failedWords = null;
    fill(failed);
  };
  clearTimeout(failedTimer);
  failedTimer = setTimeout(hide, FAILED_MS);
  const words = [error?.detail ?? error?.message ?? error, error?.hint].join();
  // Words that stand there already are not said again.
  if (words === failedWords) return;
  failedWords = words;
  fill(failed, h('div', { class: 'note bad' },
    h('p', null, line(error?.detail ?? error?.message ?? error, 600)),
    error?.hint ? h('p', { class: 'dim' }, line(error.hint, 600)) : null,
    error?.requestId ? h('p', { class: 'dim' }, `Request ${error.requestId}`) : null,
    h('button', { type: 'button', class: 'quiet', onclick: hide, 'aria-label': 'Hide this message' }, '✕')));
}

function go(fragment, { replace = false } = {}) {
  const to = fragment.startsWith('#') ? fragment : `#${fragment}`;
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(null, '', to);
    show();
  } else {
    location.hash = to;
  }
}

const api = createApi({ askToken, missing: (isMissing) => sayTokenIsMissing(isMissing) });
const hub = createHub(api, fail);
const pending = createPending(api, hub, fail);
const app = { api, h, format, dom: { append, fill, h, line, text, visible }, hub, pending, go, say, fail };
const sayTokenIsMissing = createNotice(document.getElementById('notice'), app);

function parseFragment() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [first, ...rest] = path.split('/');
  let id = rest.join('/');
  try {
    id = decodeURIComponent(id);
  } catch {
    // What was typed is no escape; it is looked for as it is.
  }
  return { first, params: { id: id || null, query: new URLSearchParams(query) } };
}

let shown = { key: null, unmount: null };
// The page of approvals has them anyway, and a run those of its own.
const drawTray = createTray(document.getElementById('tray'), app,
  (approval) => !location.hash.startsWith('#/approvals') && !location.hash.startsWith(`#/runs/${approval.run_id}`));

function leave() {
  const { unmount } = shown;
  shown = { key: null, unmount: null };
  try {
    unmount?.();
  } catch (error) {
    fail(error);
  }
}

function show() {
  const { first, params } = parseFragment();
  const section = SECTIONS.find((one) => one.path === first);
  if (!section) return go('#/runs', { replace: true });
  const view = params.id && section.one ? section.one : section.view;
  const key = `${section.path}/${params.id ?? ''}`;
  document.title = `${visible(view.title(params))} · skillrun`;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.path === section.path) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (key === shown.key && shown.unmount?.update) {
    shown.unmount.update(params);
    return;
  }
  const isFirst = shown.key === null;
  leave();
  fill(main);
  main.className = `view ${section.path}${params.id ? ' one' : ''}`;
  shown = { key, unmount: null };
  try {
    shown.unmount = view.mount(main, params, app) ?? null;
  } catch (error) {
    fail(error);
  }
  drawTray();
  window.scrollTo(0, 0);
  if (!isFirst) main.focus({ preventScroll: true });
  say(view.title(params));
}

function theme() {
  let now = localStorage.getItem(THEME_KEY) ?? 'auto';
  if (!THEMES.includes(now)) now = 'auto';
  const button = h('button', { type: 'button', class: 'quiet theme', onclick: turn });
  function set() {
    if (now === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    fill(button, { auto: '◐', light: '☀', dark: '☾' }[now]);
    button.setAttribute('aria-label', `Colours: ${now}`);
    button.title = `Colours: ${now}`;
  }
  function turn() {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    localStorage.setItem(THEME_KEY, now);
    set();
  }
  set();
  return button;
}

function header() {
  const dot = h('span', { class: 'live', role: 'img', 'aria-label': 'Not connected' });
  const links = SECTIONS.map(({ path, label }) => h('li', null,
    h('a', { href: `#/${path}`, dataset: { path } }, label,
      path === 'approvals' ? h('span', { class: 'badge', id: 'pending', hidden: true }) : null)));
  fill(document.getElementById('header'),
    h('a', { class: 'brand', href: '#/runs', 'aria-label': 'skillrun, list of runs' }, 'skillrun'),
    h('nav', { 'aria-label': 'Main' }, h('ul', null, links)),
    h('div', { class: 'end' }, dot, theme()));
  hub.subscribe({
    live(isLive) {
      dot.classList.toggle('on', isLive);
      dot.setAttribute('aria-label', isLive ? 'Live' : 'Not connected');
      dot.title = isLive ? 'Live' : 'Not connected';
    },
  });
  const badge = document.getElementById('pending');
  let before = 0;
  pending.subscribe(({ approvals: open, hasMore }) => {
    badge.hidden = open.length === 0;
    badge.textContent = `${open.length}${hasMore ? '+' : ''}`;
    badge.setAttribute('aria-label', `${open.length} waiting`);
    if (open.length > before) say(open.length === 1 ? 'An approval waits for an answer' : `${open.length} approvals wait for an answer`);
    before = open.length;
  });
}

document.getElementById('skip').addEventListener('click', (event) => {
  // The fragment is a route here, so that the link cannot lead to an element.
  event.preventDefault();
  main.focus();
});
header();
window.addEventListener('hashchange', show);
api.onToken(() => {
  // What was shown without a token is of no use.
  leave();
  show();
  pending.refresh();
});
show();
