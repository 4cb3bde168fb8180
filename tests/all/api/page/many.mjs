// A list of very many runs: read page by page to its end, by keyboard, with few rows in the document.

import { ask, assert, scenario } from './chromium.mjs';

const [base, count, oldest] = process.argv.slice(2);
/** Rows that may be elements at once: those in sight, and some above and below. */
const DRAWN_MAX = 200;
const READ = `Number(document.querySelector('.foot').innerText.replaceAll(',', '').match(/[0-9]+/)[0])`;
/** Milliseconds that are looked at, and requests that a page may make meanwhile of a daemon that is gone. */
const LOOKED_MS = 1_500;
const REQUESTS_MAX = 5;
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

  // Whoever comes back from a run is where it was opened, pages below the newest.
  await page.open(`${base}/#/runs`);
  await page.sees('more when you scroll');
  await page.eval(`document.querySelector('[role=tree]').focus()`);
  for (let read = 0; read < 1_500;) {
    await page.press('End');
    read = await page.eval(READ);
  }
  await page.press('Enter');
  await page.until(`location.hash.startsWith('#/runs/run_')`);
  const opened = await page.eval(`location.hash.slice('#/runs/'.length)`);
  await page.eval('history.back()');
  await page.until(`document.getElementById('row-Runs-${opened}')?.getAttribute('aria-selected') === 'true'`, 'the run that was opened');
  await page.until(`document.activeElement.role === 'tree'`);

  // Of a daemon that is gone not the same is asked time and again.
  await ask('stop');
  await page.until(`(document.querySelector('[role=tree]').scrollTop = 1e9, document.querySelector('.foot').innerText.includes('Older runs cannot be read'))`, 'that it failed');
  await page.eval('globalThis.beganAt = performance.now()');
  const before = page.addresses.length;
  await page.until(`performance.now() - beganAt > ${LOOKED_MS}`);
  const asked = page.addresses.slice(before);
  assert(asked.length < REQUESTS_MAX, `it asked ${asked.length} times: ${asked.slice(0, 20)}`);
});
