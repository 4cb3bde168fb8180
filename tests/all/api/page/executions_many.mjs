// More executions than one page has: all are shown, and only the newest asked for again as long as nothing happens.

import { assertEqual, scenario } from './chromium.mjs';

const [base, total] = process.argv.slice(2);
const ROWS = `document.querySelectorAll('table.executions tbody tr').length`;

await scenario(async (page) => {
  const asked = () => page.addresses.filter((address) => address.includes('/api/agent/executions?'));
  await page.open(`${base}/#/executions`);
  await page.until(`${ROWS} === 50`);
  await page.click('button', 'Show more');
  await page.until(`${ROWS} === ${total}`);
  const before = asked().length;
  // Two further looks, of which the second begins when all of the first has come.
  const looks = new Promise((resolve) => {
    page.on('Network.responseReceived', () => { if (asked().length >= before + 2) resolve(); });
  });
  await looks;
  assertEqual(asked().slice(before).filter((address) => address.includes('cursor=')), [], 'later pages that were asked for again');
  assertEqual(await page.eval(ROWS), Number(total), 'rows');
});
