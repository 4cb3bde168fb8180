// A conversation that is looked at over a reload and a restart of the daemon: nothing is missing and nothing is there twice.

import { ask, assertEqual, scenario } from './chromium.mjs';

const [base, id] = process.argv.slice(2);
const SAID = `[...document.querySelectorAll('.entry-message_chunk pre')].map((one) => one.textContent)`;

await scenario(async (page) => {
  await page.open(`${base}/#/executions/${id}`);
  await page.sees('Go on?');
  await page.reload();
  await page.sees('Go on?');
  assertEqual(await page.eval(SAID), ['before'], 'what was said before the reload');
  await ask('answer');
  await page.sees('Turn 1 ended after');
  assertEqual(await page.eval(SAID), ['before', 'denyafter'], 'what was said');
  await page.type('Prompt', 'permission Once more?');
  await page.click('button', 'Send');
  await page.sees('Once more?');
  await ask('restart');
  // Whoever was interrupted by the end of the daemon is shown as that.
  await page.until(`[...document.querySelectorAll('.entry-note')].at(-1).innerText === 'The execution stopped (interrupted)'`);
  await page.until(`document.getElementById('execution-state').textContent === 'stopped'`);
  assertEqual(await page.eval(SAID), ['before', 'denyafter'], 'what was said, after the restart');
  await page.sees('Launch it again, where it was');
  // What it asks waits on, and counts as that wherever it is counted.
  await page.until(`document.getElementById('pending').textContent === '1'`);
  await page.click('nav a[data-path=health]');
  await page.until(`[...document.querySelectorAll('.tile')].some((one) => one.innerText === 'Approvals\\n1 waiting')`);
});
