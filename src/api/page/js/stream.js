// Server-sent events that go on: over lost connections, restarts of the daemon, pages that are hidden, and late tokens.

/** Milliseconds before a lost stream is asked for again; doubled each time up to the second. Protects the daemon. */
const RETRY_MS = 1_000;
const RETRY_MS_MAX = 30_000;
/** Milliseconds that a page may be hidden before its streams are given back. Protects the streams of the others. */
const HIDDEN_MS_MAX = 10_000;
/** What every stream tells, beside the types that it is asked for. */
const CONTROLS = ['end', 'reset', 'lagged', 'damaged', 'shutdown'];
/** Statuses after which the same request may be answered: none, and those of a daemon that has too much to do. */
const PASSING = [0, 408, 429, 500, 502, 503];

/**
 * Server-sent events of `path`. `handlers.types` are the names of the events that `handlers.on(type, data, id)` is
 * called with; `end`, `reset`, `lagged`, `damaged` and `shutdown` are called with their data; `live(is_live)` says
 * whether the stream is open; `fail(error)` that it cannot be had, after which nothing comes. `after` is where to
 * begin. Returns a function that closes the stream.
 */
export function openStream(path, handlers, daemon) {
  const stream = new Stream(path, handlers, daemon);
  return () => stream.close();
}

class Stream {
  #path;
  #handlers;
  #daemon;
  #after;
  #source = null;
  #retryMs = RETRY_MS;
  #retrying = null;
  #hiding = null;
  #isPaused = false;
  #isClosed = false;
  #forgetToken = null;
  #probe = new AbortController();

  constructor(path, handlers, daemon) {
    this.#path = path;
    this.#handlers = handlers;
    this.#daemon = daemon;
    this.#after = handlers.after ?? null;
    document.addEventListener('visibilitychange', this.#hiddenOrShown);
    this.#connect();
  }

  #tell(name, ...values) {
    if (!this.#isClosed) this.#handlers[name]?.(...values);
  }

  #url() {
    const url = new URL(this.#path, location.origin);
    if (this.#after !== null) url.searchParams.set('after', this.#after);
    return url;
  }

  async #connect() {
    this.#retrying = null;
    const isWanted = () => !this.#isClosed && !this.#isPaused && !this.#source;
    if (!isWanted()) return;
    let ticket;
    try {
      ticket = await this.#daemon.ticket();
    } catch (error) {
      this.#refused(error);
      return;
    }
    if (!isWanted()) return;
    const url = this.#url();
    if (ticket) url.searchParams.set('ticket', ticket);
    this.#source = new EventSource(url);
    this.#listen(this.#source);
  }

  #listen(source) {
    source.addEventListener('open', () => {
      this.#retryMs = RETRY_MS;
      this.#tell('live', true);
    });
    for (const type of this.#handlers.types ?? []) {
      if (type !== 'error') source.addEventListener(type, (event) => this.#heard(type, event));
    }
    source.addEventListener('error', (event) => {
      // `error` is a type of event too; only that one has data.
      if (event.data !== undefined) {
        this.#heard('error', event);
        return;
      }
      this.#tell('live', false);
      if (this.#source?.readyState === EventSource.CLOSED) this.#lost();
    });
    for (const name of CONTROLS) {
      source.addEventListener(name, (event) => {
        if (name === 'reset') this.#after = null;
        if (name === 'end') this.#drop();
        this.#tell(name, this.#daemon.parse(event.data));
        if (name === 'end') this.close();
      });
    }
  }

  #heard(type, event) {
    if (event.lastEventId) this.#after = event.lastEventId;
    if ((this.#handlers.types ?? []).includes(type)) this.#tell('on', type, this.#daemon.parse(event.data), event.lastEventId);
  }

  #drop() {
    this.#source?.close();
    this.#source = null;
  }

  // `EventSource` does not say why it gave up; the same request by other means does.
  async #lost() {
    this.#drop();
    if (this.#isClosed) return;
    const only = new AbortController();
    const stop = () => only.abort();
    this.#probe.signal.addEventListener('abort', stop);
    try {
      const response = await this.#daemon.send('GET', this.#url(), { accept: 'text/event-stream', signal: only.signal });
      const isOver = response.status === 204;
      stop();
      if (isOver) {
        this.#tell('end', null);
        this.close();
      } else {
        this.#again();
      }
    } catch (error) {
      this.#refused(error);
    } finally {
      this.#probe.signal.removeEventListener('abort', stop);
    }
  }

  #refused(error) {
    if (this.#isClosed || error.name === 'AbortError') return;
    if (PASSING.includes(error.status)) {
      this.#again();
    } else if (error.status === 401) {
      this.#forgetToken ??= this.#daemon.onToken(() => this.#connect());
    } else {
      this.#tell('fail', error);
      this.close();
    }
  }

  #again() {
    if (this.#isClosed || this.#retrying !== null) return;
    this.#retrying = setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX);
  }

  #hiddenOrShown = () => {
    clearTimeout(this.#hiding);
    if (document.hidden) {
      this.#hiding = setTimeout(() => {
        this.#isPaused = true;
        this.#drop();
        this.#tell('live', false);
      }, HIDDEN_MS_MAX);
    } else if (this.#isPaused) {
      this.#isPaused = false;
      clearTimeout(this.#retrying);
      this.#connect();
    }
  };

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#drop();
    this.#forgetToken?.();
    this.#probe.abort();
    clearTimeout(this.#retrying);
    clearTimeout(this.#hiding);
    document.removeEventListener('visibilitychange', this.#hiddenOrShown);
  }
}
