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
  await page.sees('Turn 1 ended: end turn');
  assertEqual(await page.eval(SAID), ['before', 'denyafter'], 'what was said');
  await ask('restart');
  // Whoever was interrupted by the end of the daemon is shown as that.
  await page.sees('The execution stopped');
  await page.until(`document.getElementById('execution-state').textContent === 'stopped'`);
  assertEqual(await page.eval(SAID), ['before', 'denyafter'], 'what was said, after the restart');
  await page.sees('Launch it again, where it was');
});
