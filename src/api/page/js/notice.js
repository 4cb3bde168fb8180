// The line below the header that says, as long as it is so, why the page shows less than there is.

import { fill, h } from './dom.js';

/** Milliseconds without a stream after which that is said: whoever connects anew needs a moment. */
const SILENT_MS = 2_000;

/** Keeps the line in `element`. Returns a function that takes whether a token is missing. */
export function createNotice(element, app) {
  let needsToken = false;
  let isLive = false;
  let isSilent = false;
  let waiting = null;
  let shown = null;

  function draw() {
    const next = needsToken ? 'token' : isSilent ? 'silent' : null;
    // What is said again and again is no news for whoever hears it.
    if (next === shown) return;
    shown = next;
    element.hidden = next === null;
    fill(element, next === 'token'
      ? ['This daemon needs a token. ', h('button', { type: 'button', onclick: () => app.api.askToken() }, 'Give it')]
      : next === 'silent' ? 'There is no live connection to the daemon. Trying again …' : null);
  }

  function watch() {
    clearTimeout(waiting);
    if (isLive) isSilent = false;
    // Whoever looks elsewhere has given the stream back.
    else if (!document.hidden) {
      waiting = setTimeout(() => {
        isSilent = true;
        draw();
      }, SILENT_MS);
    }
    draw();
  }

  app.hub.subscribe({
    live(now) {
      if (now === isLive && waiting !== null) return;
      isLive = now;
      watch();
    },
  });
  document.addEventListener('visibilitychange', watch);
  return (isTokenMissing) => {
    needsToken = isTokenMissing;
    // Nothing could be live without.
    isSilent = false;
    watch();
  };
}
