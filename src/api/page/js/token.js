// The dialog that asks for the token. It is kept for this tab alone, and never stands in an address.

import { h } from './dom.js';

/** Resolves to the token that was typed, or to `null` when there is to be none. */
export function askToken(reason) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, 'aria-describedby': 'token-why' });
    const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'token-title' },
      h('form', { method: 'dialog', onsubmit: submit },
        h('h2', { id: 'token-title' }, 'This daemon needs a token'),
        h('p', { id: 'token-why', class: reason ? 'bad' : null }, reason ?? 'It is the one of serve.token_file or serve.token_env. This tab keeps it until it is closed.'),
        h('label', { for: 'token' }, 'Token'),
        field,
        h('div', { class: 'actions' },
          h('button', { type: 'submit', class: 'primary' }, 'Use it'),
          h('button', { type: 'button', onclick: () => dialog.close() }, 'Go on without'))));
    let given = null;
    function submit() {
      given = field.value.trim() || null;
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
