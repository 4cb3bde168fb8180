// An agent is launched by the form, talked with, asked back, steered and stopped.

import { assert, assertEqual, scenario } from './chromium.mjs';

const [base] = process.argv.slice(2);

await scenario(async (page) => {
  await page.open(`${base}/#/executions`);
  await page.click('summary', 'Launch an agent');
  await page.type('Agent', 'probe-agent');
  await page.type('First prompt', 'echo Good day\nreason slowly\nplan\nwindow 10 100');
  await page.click('button', 'Launch');
  await page.until(`location.hash.startsWith('#/executions/exec_')`);
  for (const text of ['Good day', 'slowly', 'in progress', 'context: 10 of 100', 'Turn 1 ended: end turn', 'ready']) await page.sees(text);

  await page.type('Prompt', 'echo one \necho two\npermission Delete 3 letters?');
  await page.click('button', 'Send');
  await page.sees('Delete 3 letters?');
  // Pieces of one answer are one text.
  await page.until(`[...document.querySelectorAll('pre')].some((one) => one.textContent === 'one two')`);
  await page.sees('left to answer');
  await page.type('Reason or answer in words', 'they are old');
  await page.click('button', 'Deny');
  await page.sees('Deny: they are old (on a page)');
  await page.until(`[...document.querySelectorAll('pre')].some((one) => one.textContent === 'deny')`);
  await page.sees('Turn 2 ended: end turn');

  // A turn that goes on is cancelled, and the agent takes the next prompt.
  await page.type('Prompt', 'sleep 600000');
  await page.focus('Prompt');
  await page.press('Enter', 'Enter', 2);
  await page.click('button', 'Cancel turn');
  await page.sees('Turn 3 ended: cancelled');

  await page.click('summary', 'Steer');
  await page.eval(`(() => {
    const mode = document.getElementById('mode');
    mode.value = 'office';
    mode.dispatchEvent(new Event('change', { bubbles: true }));
  })()`);
  await page.sees('The tools are now those of mode office');
  await page.type('Reason for a stop', 'it is late');
  await page.click('button', 'Stop');
  await page.sees('The execution stopped (cancelled): it is late');
  await page.until(`document.getElementById('execution-state').textContent === 'stopped'`);
  assert(await page.eval(`!document.getElementById('prompt').checkVisibility()`), 'a prompt can still be typed');

  // In the list it is shown as it ended.
  await page.open(`${base}/#/executions?status=stopped`);
  await page.until(`document.querySelectorAll('table.executions tbody tr').length === 1`);
  await page.open(`${base}/#/executions?status=ready`);
  await page.sees('There is no such execution.');
  assertEqual(await page.eval(`document.querySelectorAll('table.executions tbody tr').length`), 0, 'executions that are ready');
});
