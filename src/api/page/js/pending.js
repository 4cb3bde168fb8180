// The questions that wait for a person, over all runs, kept up to date for every page.

/** Milliseconds between two looks: runs of other processes come in no stream. */
const LOOK_MS = 15_000;
/** Milliseconds in which several events are one reason to look. Protects the daemon from a look for each of many runs. */
const SETTLE_MS = 150;
/** Questions that are kept. Protects the page; the rest is still counted as more. */
const PENDING_MAX = 1_000;

export function createPending(api, hub, fail) {
  const listeners = new Set();
  let state = { approvals: [], hasMore: false, isKnown: false };
  let settling = null;
  let looking = null;
  let again = false;

  function refresh() {
    again = Boolean(looking);
    // That the daemon does not answer, or wants a token, the notice says as long as it is so.
    looking ??= look().catch((error) => {
      if (![0, 401].includes(error.status)) fail(error);
      if (!state.isKnown) for (const listener of listeners) listener({ ...state, error });
    }).finally(() => {
      looking = null;
      if (again) refresh();
    });
    return looking;
  }

  async function look() {
    const approvals = [];
    let cursor = null;
    do {
      const query = cursor ? `?cursor=${encodeURIComponent(cursor)}` : '';
      const page = await api.get(`/api/approvals${query}`);
      approvals.push(...page.approvals);
      cursor = page.next_cursor ?? null;
    } while (cursor && approvals.length < PENDING_MAX);
    state = { approvals, hasMore: cursor !== null, isKnown: true };
    for (const listener of listeners) listener(state);
  }

  function soon() {
    settling ??= setTimeout(() => {
      settling = null;
      refresh();
    }, SETTLE_MS);
  }

  hub.subscribe({
    on(type) {
      if (type !== 'run_started') soon();
    },
    missed: soon,
  });
  setInterval(() => { if (!document.hidden) refresh(); }, LOOK_MS);
  soon();
  return {
    refresh,
    subscribe(listener) {
      listeners.add(listener);
      if (state.isKnown) listener(state);
      return () => listeners.delete(listener);
    },
  };
}
