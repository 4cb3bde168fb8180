// One stream of all runs for the whole page: a browser has few connections to one host, and tabs share them.

const TYPES = ['run_started', 'run_resumed', 'run_completed', 'approval_request', 'approval_response'];

/**
 * `subscribe({ on(type, event), missed(), live(is_live) })` hears of what all runs record from now on; `missed` is
 * called when events may have passed unheard, so that what was listed has to be listed again.
 */
export function createHub(api, fail) {
  const listeners = new Set();
  let isLive = false;
  const tell = (name, ...values) => {
    for (const listener of listeners) listener[name]?.(...values);
  };
  api.stream(`/api/agent/runs/events?types=${TYPES.join(',')}`, {
    types: TYPES,
    on: (type, event) => tell('on', type, event),
    reset: () => tell('missed'),
    lagged: () => tell('missed'),
    live(now) {
      // A daemon that was started anew closes what was cut off before anybody can listen.
      if (now && !isLive) tell('missed');
      isLive = now;
      tell('live', now);
    },
    fail,
  });
  return {
    subscribe(listener) {
      listeners.add(listener);
      listener.live?.(isLive);
      return () => listeners.delete(listener);
    },
  };
}
