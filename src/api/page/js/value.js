// How values of callers, skills, tools and models are shown.

import { h, text } from './dom.js';
import * as format from './format.js';
import { isBlob } from './timeline.js';

/** One value, with its size, and with what is known of it when it is too large for its line. */
export function value(label, shown, { isTruncated = false, note = null } = {}) {
  if (shown === undefined) return null;
  if (isBlob(shown)) {
    return h('section', { class: 'value' },
      h('h3', null, label, ' ', h('span', { class: 'dim' }, format.bytes(shown.bytes))),
      h('p', { class: 'dim' }, 'Too large for its line: the beginning is shown. ', h('code', null, 'skillrun runs export'), ' prints the whole.'),
      text(String(shown.preview ?? ''), { label: `${label}, the beginning` }),
      h('p', { class: 'dim mono' }, `sha256 ${shown.blob}`));
  }
  const whole = typeof shown === 'string' ? shown : format.json(shown);
  return h('section', { class: 'value' },
    h('h3', null, label, ' ', h('span', { class: 'dim' }, format.bytes(new Blob([whole]).size))),
    isTruncated ? h('p', { class: 'warn' }, 'Truncated: what is on record is less than what there was.') : null,
    note ? h('p', { class: 'dim' }, note) : null,
    text(whole, { label }));
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
    dialog.addEventListener('close', () => {
      dialog.remove();
      before?.focus?.();
      resolve(data);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
