// How values of callers, skills, tools and models are shown.

import { whileBusy } from './busy.js';
import { fill, h, text } from './dom.js';
import * as format from './format.js';
import { isBlob } from './timeline.js';

/** Bytes of a value up to which the page offers to show it whole. Protects the page. */
const WHOLE_BYTES_MAX = 2_000_000;
/** Milliseconds after which the browser has read what it keeps as a file. Protects its memory. */
const KEPT_MS = 60_000;

/**
 * One value, with its size. One that is too large for its line is its beginning; where `load(digest)` answers with
 * a response that has all of it, it can be shown whole, and kept as a file.
 */
export function value(label, shown, { isTruncated = false, note = null, load = null } = {}) {
  if (shown === undefined) return null;
  if (isBlob(shown)) return large(label, shown, load);
  const whole = typeof shown === 'string' ? shown : format.json(shown);
  return h('section', { class: 'value' },
    h('h3', null, label, ' ', h('span', { class: 'dim' }, format.bytes(bytesOf(shown)))),
    isTruncated ? h('p', { class: 'warn' }, 'Truncated: what is on record is less than what there was.') : null,
    note ? h('p', { class: 'dim' }, note) : null,
    text(whole, { label }));
}

/** Bytes of a value as JSON without white space, or of a text as it is. */
function bytesOf(shown) {
  return new Blob([typeof shown === 'string' ? shown : JSON.stringify(shown)]).size;
}

function large(label, { blob, bytes, preview }, load) {
  const said = h('p', { class: 'dim', role: 'status' }, 'Too large for its line: this is the beginning.');
  const shown = h('div', null, text(String(preview ?? ''), { label: `${label}, the beginning` }));
  const button = (name, work) => h('button', { type: 'button', onclick: ({ currentTarget }) => whileBusy(currentTarget, async () => {
    try {
      await work(await load(blob));
    } catch (error) {
      fill(said, `It cannot be had: ${error.message}`);
    }
  }) }, name);
  const whole = button('Fetch the whole', async (response) => {
    fill(shown, text(await response.text(), { label }));
    fill(said, 'It was fetched whole, as it is stored.');
    const hadFocus = whole === document.activeElement;
    whole.remove();
    if (hadFocus) shown.querySelector('pre').focus();
  });
  const download = button('Download', async (response) => {
    const url = URL.createObjectURL(await response.blob());
    h('a', { href: url, download: `${blob}.txt` }).click();
    setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
    fill(said, 'It is a file of the browser now.');
  });
  return h('section', { class: 'value' },
    h('h3', null, label, ' ', h('span', { class: 'dim' }, format.bytes(bytes))), said, shown,
    h('p', { class: 'dim mono' }, `sha256 ${blob}`),
    load ? h('div', { class: 'actions' }, bytes <= WHOLE_BYTES_MAX ? whole : null, download) : null);
}

/** Names and what they are, as a list; those that are `null`, `undefined` or empty are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, what]) => what !== null && what !== undefined && what !== '');
  return h('dl', { class: 'facts' }, known.map(([name, what]) => [h('dt', null, name), h('dd', null, what)]));
}

/** A text that is copied when its button is pressed. */
export function copied(whole, app, label) {
  return h('span', { class: 'copied' }, h('code', null, whole),
    h('button', {
      type: 'button', class: 'quiet', 'aria-label': `Copy ${label}`, title: `Copy ${label}`,
      onclick: () => navigator.clipboard?.writeText(whole).then(() => app.say('Copied'), app.fail),
    }, 'Copy'));
}

/** Asks whether something is to be done; resolves to the form's data, or to `null`. */
export function ask({ title, body, yes, isDanger = false }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    let data = null;
    const form = h('form', { method: 'dialog', onsubmit: () => { data = new FormData(form); } },
      h('h2', { id: 'ask-title' }, title), body,
      h('div', { class: 'actions' },
        h('button', { type: 'submit', class: isDanger ? 'danger' : 'primary' }, yes),
        h('button', { type: 'button', onclick: () => dialog.close() }, 'Do nothing')));
    const dialog = h('dialog', { 'aria-labelledby': 'ask-title' }, form);
    // Elsewhere it would be about something that is not in sight any more.
    const leave = () => dialog.close();
    window.addEventListener('hashchange', leave);
    dialog.addEventListener('close', () => {
      window.removeEventListener('hashchange', leave);
      dialog.remove();
      before?.focus?.();
      resolve(data);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
