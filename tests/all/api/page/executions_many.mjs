// More executions than one page has: all are shown, and only the newest asked for again as long as nothing happens.

import { assertEqual, scenario } from './chromium.mjs';

const [base, total] = process.argv.slice(2);
const ROWS = `document.querySelectorAll('table.executions tbody tr').length`;
/** What was asked for, the newest last. */
const ASKED = `performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.includes('/api/agent/executions?'))`;

await scenario(async (page) => {
  await page.open(`${base}/#/executions`);
  await page.until(`${ROWS} === 50`);
  await page.click('button', 'Show more');
  await page.until(`${ROWS} === ${total}`);
  // Two looks, one after the other, that ask for nothing else.
  await page.until(`${ASKED}.slice(-2).every((name) => !name.includes('cursor='))`);
  assertEqual(await page.eval(ROWS), Number(total), 'rows');
});
