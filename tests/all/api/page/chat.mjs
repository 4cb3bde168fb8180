// An agent is launched by the form, talked with, asked back, given another mode and stopped.

import { assert, assertEqual, scenario } from './chromium.mjs';

const [base] = process.argv.slice(2);

const PROMPT = `document.getElementById('prompt')`;
const CAN_CANCEL = `document.querySelector('.prompt-box button:not([aria-disabled="true"]):not(.primary)') !== null`;
const WAITING = `[...document.querySelectorAll('.waiting-prompts li')].map((one) => one.innerText.trim())`;
const ANSWERS = `[...document.querySelectorAll('.entry-message_chunk pre')].map((one) => one.textContent)`;
/** Keeps hold of the streams that the page opens. */
const WATCH_STREAMS = `globalThis.streams = [];
  globalThis.EventSource = class extends EventSource {
    constructor(...given) { super(...given); streams.push(this); }
  };`;

await scenario(async (page) => {
  await page.call('Page.addScriptToEvaluateOnNewDocument', { source: WATCH_STREAMS });
  await page.open(`${base}/#/executions`);
  await page.click('summary', 'Launch an agent');
  await page.type('Agent', 'probe-agent');
  await page.type('First prompt', 'echo Good day\nreason slowly\nplan\nwindow 10 100');
  await page.click('button', 'Launch');
  await page.until(`location.hash.startsWith('#/executions/exec_')`);
  for (const text of ['Good day', 'slowly', 'in progress', 'context: 10 of 100', 'Turn 1 ended after', 'ready']) await page.sees(text);
  assert(await page.eval(`/^Prompt 1 · 20[0-9-]+ [0-9:]+$/.test(document.querySelector('.entry-prompt h2').textContent)`), 'when it was taken');

  await page.type('Prompt', 'echo one \necho two\npermission Delete 3 letters?');
  await page.click('button', 'Send');
  await page.sees('Delete 3 letters?');
  // Pieces of one answer are one text.
  await page.until(`[...document.querySelectorAll('pre')].some((one) => one.textContent === 'one two')`);
  await page.sees('left to answer');
  await page.sees('Refuse without choosing');
  await page.type('Reason or answer in words', 'they are old');
  await page.click('button', 'Deny');
  await page.sees('Deny: they are old (on a page)');
  await page.until(`[...document.querySelectorAll('pre')].some((one) => one.textContent === 'deny')`);
  await page.sees('Turn 2 ended after');

  // A skill that it calls has a run of its own, to which its call leads.
  await page.type('Prompt', 'skill greet {"name": "Ada"}');
  await page.click('button', 'Send');
  await page.sees('Turn 3 ended after');
  await page.click('.entry-call summary');
  await page.click('.entry-call a');
  await page.until(`location.hash.startsWith('#/runs/run_') && document.querySelector('.run-head h1')?.textContent === 'greet'`);
  await page.eval('history.back()');
  await page.sees('Turn 3 ended after');

  // What cannot be sent is there again.
  await page.call('Network.setBlockedURLs', { urls: ['*/prompt'] });
  await page.type('Prompt', 'sleep 600000');
  await page.click('button', 'Send');
  await page.until(`${PROMPT}.value === 'sleep 600000' && document.querySelector('#failed .note') !== null`);
  await page.call('Network.setBlockedURLs', { urls: [] });

  // Pressed twice it is sent once, and what is typed meanwhile stays.
  await page.focus('Prompt');
  await page.press('Enter', 'Enter', 2);
  await page.press('Enter', 'Enter', 2);
  await page.call('Input.insertText', { text: 'echo waits' });
  await page.until(CAN_CANCEL);
  assertEqual(await page.eval(`${PROMPT}.value`), 'echo waits', 'what was typed while the prompt was sent');

  // Prompts that wait are shown in order, and those of before a reload are counted.
  await page.click('button', 'Send');
  await page.until(`${WAITING}.join() === 'echo waits'`);
  assertEqual(await page.eval(`document.activeElement.innerText`), 'Send', 'what has the focus');
  await page.reload();
  await page.sees('1 prompt that was sent before this page was opened, or elsewhere');
  for (const prompt of ['echo next', 'echo last']) {
    await page.type('Prompt', prompt);
    await page.click('button', 'Send');
  }
  await page.until(`${WAITING}.join() === 'echo next,echo last'`);
  await page.sees('1 prompt that was sent before this page was opened, or elsewhere');

  // A turn that goes on is cancelled, and the agent takes the next prompt.
  await page.until(CAN_CANCEL);
  await page.click('button', 'Cancel turn');
  await page.sees('Turn 4 was cancelled after');
  await page.sees('Turn 7 ended after');
  assertEqual(await page.eval(`${ANSWERS}.slice(-3)`), ['waits', 'next', 'last'], 'what was answered to those that waited');
  await page.until(`${WAITING}.length === 0 && document.querySelector('.waiting-prompts').hidden`);

  // Of a long answer the beginning is shown while it comes.
  await page.type('Prompt', 'emit-big 5000\nsleep 600000');
  await page.click('button', 'Send');
  await page.sees('More is coming.');
  await page.until(CAN_CANCEL);
  await page.click('button', 'Cancel turn');
  await page.sees('Turn 8 was cancelled after');
  await page.sees('4,000 of 5,000 characters are shown');
  await page.until(`!document.querySelector('main').innerText.includes('More is coming.')`);
  await page.type('Prompt', 'permission Was that enough?');
  await page.click('button', 'Send');
  await page.sees('Was that enough?');
  await page.click('button', 'Refuse without choosing');
  await page.sees('Rejected (on a page)');

  await page.click('summary', 'Mode and stop');
  await page.eval(`(() => {
    const mode = document.getElementById('mode');
    mode.value = 'office';
    mode.dispatchEvent(new Event('change', { bubbles: true }));
  })()`);
  await page.sees('The tools are now those of mode office');
  await page.type('Reason for a stop', 'it is late');
  await page.click('button', 'Stop');
  await page.click('dialog button', 'Do nothing');
  await page.until(`document.querySelector('dialog') === null && document.activeElement.innerText === 'Stop'`);
  assertEqual(await page.eval(`document.getElementById('execution-state').textContent`), 'ready', 'what became of it');
  await page.click('button', 'Stop');
  await page.click('dialog button', 'Stop it');
  await page.sees('The execution stopped (cancelled): it is late');
  await page.until(`document.getElementById('execution-state').textContent === 'stopped'`);
  assert(await page.eval(`!document.getElementById('prompt').checkVisibility()`), 'a prompt can still be typed');
  assert(await page.eval(`document.activeElement !== document.body`), 'the focus is lost');

  // Opened fresh it is over, and no connection is looked for.
  await page.reload();
  await page.sees('The execution stopped (cancelled): it is late');
  await page.until(`streams.filter(({ url }) => url.includes('/executions/')).every(({ readyState }) => readyState === EventSource.CLOSED)`);
  assertEqual(await page.eval(`document.getElementById('execution-link').textContent`), '', 'what is said of the connection');
  // Taking it up begins where it was.
  await page.click('a', 'Launch it again, where it was');
  await page.until(`document.getElementById('launch-mode').value === 'office'`);

  // In the list it is shown as it ended.
  await page.open(`${base}/#/executions?status=stopped`);
  await page.until(`document.querySelectorAll('table.executions tbody tr').length === 1`);
  await page.open(`${base}/#/executions?status=ready`);
  await page.sees('No execution fits these filters.');
  assertEqual(await page.eval(`document.querySelectorAll('table.executions tbody tr').length`), 0, 'executions that are ready');
});
