// A list of very many runs: read page by page to its end, by keyboard, with few rows in the document.

import { assert, scenario } from './chromium.mjs';

const [base, count, oldest] = process.argv.slice(2);
/** Rows that may be elements at once: those in sight, and some above and below. */
const DRAWN_MAX = 200;
const READ = `Number(document.querySelector('.foot').innerText.replaceAll(',', '').match(/[0-9]+/)[0])`;
const DRAWN = `document.querySelectorAll('[role=treeitem]').length`;

await scenario(async (page) => {
  await page.open(`${base}/#/runs`);
  await page.sees('more when you scroll');
  await page.eval(`document.querySelector('[role=tree]').focus()`);
  for (let read = 0; read < Number(count);) {
    await page.press('End');
    read = await page.eval(READ);
    const drawn = await page.eval(DRAWN);
    assert(drawn < DRAWN_MAX, `${drawn} rows are drawn of ${read}`);
  }
  await page.press('Home');
  await page.until(`document.querySelector('[role=treeitem][aria-selected=true]') !== null`);
  // What was read is searched without the daemon.
  await page.type('Search', oldest);
  await page.sees('1 run among');
  await page.eval(`document.querySelector('[role=tree]').focus()`);
  await page.press('Home');
  await page.press('Enter');
  await page.until(`location.hash === '#/runs/${oldest}'`);
  await page.sees(oldest);
});
