// The one way from the page to the daemon: requests, problem documents as errors, and streams.

import { learn } from './clock.js';
import { openStream } from './stream.js';

/** Bytes of a key for a request. */
const KEY_BYTES = 16;
const TOKEN_KEY = 'skillrun.token';
/** Decimal digits that a number of JavaScript always holds. */
const EXACT_DIGITS = 15;

/** What the daemon answered in place of what was asked for. */
class ApiError extends Error {
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

async function problemOf(response) {
  try {
    return parse(await response.text()) ?? {};
  } catch {
    return {};
  }
}

async function valueOf(response) {
  const text = await response.text();
  return text === '' ? null : parse(text);
}

/** One request, answered with whatever status. */
async function request(method, path, token, { body, headers = {}, signal, accept = 'application/json' }) {
  const all = { Accept: accept, ...headers };
  if (token) all.Authorization = `Bearer ${token}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  try {
    const response = await fetch(path, { method, headers: all, body: text, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' });
    learn(response);
    return response;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, { code: 'unreachable', detail: 'the daemon does not answer' });
  }
}

/**
 * The token of this tab. `askToken(reason)` is called when one is needed, and resolves to one, or to `null` when
 * somebody goes on without; then nobody is asked until somebody wants to be. `missing(isMissing)` hears of both.
 */
function createToken({ askToken, missing }) {
  let token = sessionStorage.getItem(TOKEN_KEY);
  let asking = null;
  let isRefused = false;
  const listeners = new Set();
  return {
    get value() { return token; },
    /** Another one than `used`, which the daemon did not take. */
    async other(used) {
      // Of several requests that are refused at once, only the first asks.
      if (token !== used) return token;
      if (isRefused) return null;
      sessionStorage.removeItem(TOKEN_KEY);
      missing(true);
      asking ??= askToken(used ? 'The token is not the one that is configured.' : null)
        .then((given) => {
          token = given;
          isRefused = given === null;
          missing(isRefused);
          return given;
        })
        .finally(() => { asking = null; });
      return asking;
    },
    /** What the daemon took is kept. */
    taken(used) {
      if (used && used === token) sessionStorage.setItem(TOKEN_KEY, used);
    },
    async ask() {
      isRefused = false;
      if (await this.other(token)) for (const listener of [...listeners]) listener();
    },
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** `person.askToken(reason)` asks for a token, `person.missing(isMissing)` says whether one is needed and not there. */
export function createApi(person) {
  const token = createToken(person);

  async function send(method, path, options = {}) {
    for (;;) {
      const used = token.value;
      const response = await request(method, path, used, options);
      if (response.status !== 401) token.taken(used);
      else if (await token.other(used)) continue;
      else throw new ApiError(401, { code: 'unauthorized', detail: 'the daemon wants a token' });
      if (response.ok) return response;
      throw new ApiError(response.status, await problemOf(response));
    }
  }

  /** What a stream is opened with, as its address must not have the token. */
  async function ticket() {
    return token.value ? (await (await send('POST', '/api/stream-tickets')).json()).ticket : null;
  }

  const daemon = { send, ticket, parse, onToken: token.on };
  return {
    get: async (path, options) => valueOf(await send('GET', path, options)),
    /** `body` is a value, or a string that is JSON already. */
    post: async (path, body, options) => valueOf(await send('POST', path, { ...options, body })),
    /** The answer as text, such as that of `/metrics`. */
    text: async (path, options) => (await send('GET', path, { accept: '*/*', ...options })).text(),
    /** Starts a run; `body` is a string that is JSON already. */
    startRun: async (body) => valueOf(await send('POST', '/api/agent/runs', { body, headers: { 'Idempotency-Key': idempotencyKey() } })),
    /** A value that is stored beside the ledger of a run, as it comes. */
    blob: (runId, digest) => send('GET', `/api/agent/runs/${encodeURIComponent(runId)}/blobs/${encodeURIComponent(digest)}`, { accept: '*/*' }),
    stream: (path, handlers) => openStream(path, handlers, daemon),
    /** Asks for the token after somebody went on without. */
    askToken: () => token.ask(),
    /** `listener` is called when there is a token after somebody went on without. Returns what ends that. */
    onToken: token.on,
  };
}

/** A key with which a request that the browser sends again starts nothing twice. */
function idempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
