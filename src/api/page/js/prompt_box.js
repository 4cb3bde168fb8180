// What a person tells an agent: the box for the next prompt, and those that wait for their turn.

import { whileBusy } from './busy.js';
import { text } from './dom.js';

/**
 * @param {object} app what a view is given
 * @param {string} path the route of the execution
 * @param {() => Promise<void>} look has the execution asked for again, and shown
 */
export function promptBox(app, path, look) {
  const { h } = app;
  const prompt = h('textarea', { id: 'prompt', rows: 3 });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Send');
  const cancel = h('button', { type: 'button' }, 'Cancel turn');
  const form = h('form', { class: 'prompt-box', hidden: true },
    h('label', { for: 'prompt' }, 'Prompt'), prompt,
    h('div', { class: 'actions' }, send, cancel, h('span', { class: 'dim' }, 'Ctrl + Enter sends')));
  const waiting = waitingPrompts(h);

  const submit = async () => {
    const words = prompt.value;
    prompt.value = '';
    const entry = waiting.add(words);
    try {
      await app.api.post(`${path}/prompt`, { prompt: words });
    } catch (error) {
      // Where its turn has begun, the answer alone was lost.
      if (waiting.takeBack(entry)) prompt.value = prompt.value === '' ? words : `${words}\n${prompt.value}`;
      throw error;
    }
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (prompt.value === '') return;
    whileBusy(send, submit).then(look).catch(app.fail);
  });
  prompt.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  let isCancelling = false;
  cancel.addEventListener('click', () => {
    if (isCancelling || cancel.getAttribute('aria-disabled') === 'true') return;
    isCancelling = true;
    cancel.setAttribute('aria-disabled', 'true');
    app.api.post(`${path}/cancel`).catch(app.fail).then(() => {
      isCancelling = false;
      return look();
    }).catch(app.fail);
  });

  return {
    elements: [waiting.element, form],
    begun: waiting.begun,
    show(execution, isLive) {
      form.hidden = !isLive;
      cancel.setAttribute('aria-disabled', String(isCancelling || execution.status !== 'running'));
      waiting.show(execution, isLive);
    },
  };
}

/** Prompts whose turn has not begun: those of this page with their text, and how many others sent. */
function waitingPrompts(h) {
  let sent = [];
  let newestGeneration = 0;
  let queued = 0;
  let isLive = true;
  const title = h('h2', { id: 'waiting-title' });
  const list = h('ol', {});
  const others = h('p', { class: 'dim' });
  const element = h('section', { class: 'waiting-prompts', 'aria-labelledby': 'waiting-title', hidden: true }, title, list, others);

  function draw() {
    const othersQueued = isLive ? Math.max(0, queued - sent.length) : 0;
    title.textContent = isLive ? 'Waiting for their turn' : 'Not taken: the execution has ended';
    list.replaceChildren(...sent.map(({ shown }) => shown));
    others.textContent = othersQueued === 1
      ? '1 prompt that was sent before this page was opened, or elsewhere'
      : `${othersQueued} prompts that were sent before this page was opened, or elsewhere`;
    others.hidden = othersQueued === 0;
    element.hidden = sent.length === 0 && othersQueued === 0;
  }

  return {
    element,
    add(words) {
      const entry = { words, afterGeneration: newestGeneration, shown: h('li', {}, text(words, { label: 'Prompt that waits' })) };
      sent.push(entry);
      draw();
      return entry;
    },
    /** Whether it was still waiting. */
    takeBack(entry) {
      const isWaiting = sent.includes(entry);
      sent = sent.filter((one) => one !== entry);
      draw();
      return isWaiting;
    },
    /** Hears that the turn of a prompt begins. An earlier one with the same text, told again, is another one. */
    begun({ prompt, prompt_generation: generation }) {
      const entry = sent.find(({ words, afterGeneration }) => words === prompt && generation > afterGeneration);
      sent = sent.filter((one) => one !== entry);
      newestGeneration = Math.max(newestGeneration, generation);
      draw();
    },
    show(execution, isExecutionLive) {
      newestGeneration = Math.max(newestGeneration, execution.prompt_generation);
      queued = execution.prompts_queued;
      isLive = isExecutionLive;
      draw();
    },
  };
}
