// The one way from the page to the daemon: requests, problem documents as errors, and streams.

import { learn } from './clock.js';

const TOKEN_KEY = 'skillrun.token';
/** Milliseconds before a lost stream is asked for again; doubled each time up to the second. Protects the daemon. */
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 30_000;
/** Milliseconds that a page may be hidden before its streams are given back. Protects the streams of the others. */
const HIDDEN_MS_MAX = 10_000;
/** Decimal digits that a number of JavaScript always holds. */
const EXACT_DIGITS = 15;

/** What the daemon answered in place of what was asked for. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the daemon answered ${status}`);
    this.name = 'ApiError';
    this.status = status;
    this.code = problem.code ?? 'unknown';
    this.detail = problem.detail ?? null;
    this.hint = problem.hint ?? null;
    this.requestId = problem.request_id ?? null;
    this.problem = problem;
  }
}

/**
 * A JSON text as a value. Numbers that JavaScript cannot hold stay as they are spelled, where the browser has
 * `JSON.rawJSON`, so that what is shown is what is on record.
 */
export function parse(text) {
  if (!JSON.rawJSON || !/[\d.]{16}|\d[eE]\+?\d{3}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== 'number' || context?.source === undefined) return value;
    const digits = context.source.replace(/[eE].*|\D/g, '').replace(/^0+/, '').length;
    const isExact = Number.isFinite(value) && (digits <= EXACT_DIGITS || String(value) === context.source);
    return isExact ? value : JSON.rawJSON(context.source);
  });
}

/** `askToken(reason)` is called when a token is needed, and resolves to one, or to `null`. */
export function createApi({ askToken }) {
  let token = sessionStorage.getItem(TOKEN_KEY);
  let asking = null;

  function tokenAgain(used) {
    // Of several requests that are refused at once, only the first asks.
    if (token !== used) return Promise.resolve(token);
    asking ??= askToken(used ? 'The token is not the one that is configured.' : null)
      .then((given) => {
        token = given;
        if (given) sessionStorage.setItem(TOKEN_KEY, given);
        else sessionStorage.removeItem(TOKEN_KEY);
        return given;
      })
      .finally(() => { asking = null; });
    return asking;
  }

  async function send(method, path, { body, headers = {}, signal, accept = 'application/json' } = {}) {
    for (;;) {
      const used = token;
      const all = { Accept: accept, ...headers };
      if (used) all.Authorization = `Bearer ${used}`;
      if (body !== undefined) all['Content-Type'] = 'application/json';
      const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
      let response;
      try {
        response = await fetch(path, { method, headers: all, body: text, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' });
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new ApiError(0, { code: 'unreachable', detail: 'the daemon does not answer' });
      }
      learn(response);
      if (response.status === 401 && await tokenAgain(used)) continue;
      if (response.ok) return response;
      throw new ApiError(response.status, await problemOf(response));
    }
  }

  async function problemOf(response) {
    try {
      return parse(await response.text()) ?? {};
    } catch {
      return {};
    }
  }

  async function value(response) {
    const text = await response.text();
    return text === '' ? null : parse(text);
  }

  const api = {
    get: async (path, options) => value(await send('GET', path, options)),
    /** `body` is a value, or a string that is JSON already. */
    post: async (path, body, options) => value(await send('POST', path, { ...options, body })),
    del: async (path, body, options) => value(await send('DELETE', path, { ...options, body })),
    /** The answer as text, such as that of `/metrics`. */
    text: async (path, options) => (await send('GET', path, { accept: '*/*', ...options })).text(),
    /** A value that is stored beside the ledger of a run, as it comes. */
    blob: (runId, digest) => send('GET', `/api/agent/runs/${encodeURIComponent(runId)}/blobs/${encodeURIComponent(digest)}`, { accept: '*/*' }),
    /** The answer as it comes; it is ok. */
    response: (path, options) => send('GET', path, { accept: '*/*', ...options }),
    stream: (path, handlers) => openStream(path, handlers, { send, hasToken: () => Boolean(token) }),
  };
  return api;
}

/**
 * Server-sent events of `path`. `handlers.types` are the names of the events that `handlers.on(type, data, id)` is
 * called with; `end`, `reset`, `lagged`, `damaged` and `shutdown` are called with their data; `live(is_live)` says
 * whether the stream is open; `fail(error)` that it cannot be had, after which nothing comes. `after` is where to
 * begin. Returns a function that closes the stream.
 */
function openStream(path, handlers, { send, hasToken }) {
  let source = null;
  let after = handlers.after ?? null;
  let retryMs = RETRY_MS;
  let timer = null;
  let hiddenTimer = null;
  let isPaused = false;
  let closed = false;
  const probe = new AbortController();

  const call = (name, ...values) => { if (!closed) handlers[name]?.(...values); };

  async function connect() {
    timer = null;
    if (closed || isPaused || source) return;
    let ticket = null;
    try {
      if (hasToken()) ticket = (await send('POST', '/api/stream-tickets')
        .then((response) => response.json())).ticket;
    } catch (error) {
      return refused(error);
    }
    if (closed || isPaused || source) return;
    const url = new URL(path, location.origin);
    if (after !== null) url.searchParams.set('after', after);
    if (ticket) url.searchParams.set('ticket', ticket);
    source = new EventSource(url);
    source.addEventListener('open', () => { retryMs = RETRY_MS; call('live', true); });
    for (const type of handlers.types ?? []) {
      if (type !== 'error') source.addEventListener(type, (event) => heard(type, event));
    }
    source.addEventListener('error', (event) => {
      // `error` is a type of event too; only that one has data.
      if (event.data !== undefined) return heard('error', event);
      call('live', false);
      if (source?.readyState === EventSource.CLOSED) lost();
    });
    for (const name of ['end', 'reset', 'lagged', 'damaged', 'shutdown']) {
      source.addEventListener(name, (event) => {
        if (name === 'reset') after = null;
        if (name === 'end') drop();
        call(name, parse(event.data));
        if (name === 'end') close();
      });
    }
  }

  function heard(type, event) {
    if (event.lastEventId) after = event.lastEventId;
    if ((handlers.types ?? []).includes(type)) call('on', type, parse(event.data), event.lastEventId);
  }

  function drop() {
    source?.close();
    source = null;
  }

  // `EventSource` does not say why it gave up; the same request by other means does.
  async function lost() {
    drop();
    if (closed) return;
    const url = new URL(path, location.origin);
    if (after !== null) url.searchParams.set('after', after);
    const only = new AbortController();
    const stop = () => only.abort();
    probe.signal.addEventListener('abort', stop);
    try {
      const response = await send('GET', url, { accept: 'text/event-stream', signal: only.signal });
      const isOver = response.status === 204;
      stop();
      if (isOver) {
        call('end', null);
        return close();
      }
      again();
    } catch (error) {
      refused(error);
    } finally {
      probe.signal.removeEventListener('abort', stop);
    }
  }

  function refused(error) {
    if (closed || error.name === 'AbortError') return;
    if ([0, 408, 429, 500, 502, 503].includes(error.status)) return again();
    call('fail', error);
    close();
  }

  function again() {
    if (closed || timer !== null) return;
    timer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
  }

  function visibility() {
    clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = setTimeout(() => {
        isPaused = true;
        drop();
        call('live', false);
      }, HIDDEN_MS_MAX);
    } else if (isPaused) {
      isPaused = false;
      clearTimeout(timer);
      connect();
    }
  }

  function close() {
    if (closed) return;
    closed = true;
    drop();
    probe.abort();
    clearTimeout(timer);
    clearTimeout(hiddenTimer);
    document.removeEventListener('visibilitychange', visibility);
  }

  document.addEventListener('visibilitychange', visibility);
  connect();
  return close;
}
