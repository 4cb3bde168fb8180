// A run is looked at while its daemon ends and comes again: what was recorded meanwhile is there, and once.

import { ask, assertEqual, scenario } from './chromium.mjs';

const [base, id] = process.argv.slice(2);
const LOGGED = `[...document.querySelectorAll('[role=treeitem].log .name')].map((one) => one.textContent.replace(/^·/, ''))`;

await scenario(async (page) => {
  await page.open(`${base}/#/runs/${id}`);
  await page.until(`${LOGGED}.length === 1`, 'the first line');
  await page.reload();
  await page.until(`${LOGGED}.length === 1`, 'the first line after the reload');
  await page.until(`document.querySelector('header [aria-label="Live"]') !== null`, 'a stream that is open');
  await ask('stop');
  await page.until(`document.querySelector('header [aria-label="Not connected"]') !== null`, 'a stream that is cut');
  await ask('start');
  await page.until(`${LOGGED}.length === 2`, 'what was recorded meanwhile');
  await ask('end');
  await page.until(`document.querySelector('.run-head .chip')?.textContent === 'ok'`, 'the end');
  await page.until(`${LOGGED}.length === 3`, 'the last line');
  assertEqual(await page.eval(LOGGED), ['before', 'while nobody serves', 'after'], 'what was logged');
});
