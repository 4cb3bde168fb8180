// The dialog that asks for the token. It is kept for this tab alone, and never stands in an address.

import { fill, h } from './dom.js';

/** What a token consists of; nothing else can be sent in a header field. */
const TOKEN = /^[\x21-\x7e]+$/;

/** Resolves to the token that was typed, or to `null` when there is to be none. */
export function askToken(reason) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, 'aria-describedby': 'token-why' });
    const why = h('p', { id: 'token-why', class: reason ? 'bad' : null, role: 'status' }, reason ?? 'It is the one of serve.token_file or serve.token_env. This tab keeps it until it is closed.');
    const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'token-title' },
      h('form', { method: 'dialog', onsubmit: submit },
        h('h2', { id: 'token-title' }, 'This daemon needs a token'),
        why,
        h('label', { for: 'token' }, 'Token'),
        field,
        h('div', { class: 'actions' },
          h('button', { type: 'submit', class: 'primary' }, 'Use it'),
          h('button', { type: 'button', onclick: () => dialog.close() }, 'Go on without'))));
    let given = null;
    function submit(event) {
      const typed = field.value.trim();
      if (TOKEN.test(typed)) {
        given = typed;
        return;
      }
      event.preventDefault();
      why.className = 'bad';
      fill(why, 'No token has such characters: it consists of letters, digits and signs of ASCII, without spaces.');
      field.focus();
    }
    dialog.addEventListener('close', () => {
      field.value = '';
      dialog.remove();
      before?.focus?.();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}
