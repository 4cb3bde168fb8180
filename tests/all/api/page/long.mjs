// A run of more events than are shown: it is used while it loads, and its end is there.

import { assertEqual, scenario } from './chromium.mjs';

const [base, run] = process.argv.slice(2);

await scenario(async (page) => {
  await page.open(`${base}/#/runs/${run}`);
  await page.sees('only the first 200,000 are shown');
  await page.until(`document.querySelector('.run-head .chip')?.textContent === 'error'`);
  await page.sees('Decided by:');
  assertEqual(await page.eval(`[...document.querySelectorAll('.run-head .actions button')].map((one) => one.textContent)`), ['Run again'], 'what can be done');
  // Opening what could be resumed from walks over all of it.
  await page.click('summary', 'Resume points');
  await page.sees('There are none.');
  await page.eval(`document.querySelector('[role=tree]').focus()`);
  await page.press('End');
  await page.press('Enter');
  await page.until(`document.querySelector('.detail article') !== null`);
});
