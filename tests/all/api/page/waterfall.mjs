// One run from its beginning to its end: what it does inside, what it waits for, and what a person can do with it.

import { ask, assert, assertEqual, scenario } from './chromium.mjs';

const [base, parent, sleeper, large, failed] = process.argv.slice(2);
const CHIP = `document.querySelector('.run-head .chip')?.textContent`;
const ROWS = `[...document.querySelectorAll('[role=treeitem]')].map((one) => [Number(one.getAttribute('aria-level')), one.innerText.replaceAll('\\n', ' ')])`;
const row = (text) => `[...document.querySelectorAll('[role=treeitem]')].find((one) => one.innerText.includes(${JSON.stringify(text)}))`;

await scenario(async (page) => {
  // A question of the run inside stands in its place, and is answered from here; until then both wait.
  await page.open(`${base}/#/runs/${parent}`);
  await page.until(`${row('Send from inside?')} !== undefined`);
  const level = await page.eval(`Number(${row('Send from inside?')}.getAttribute('aria-level'))`);
  assert(level > 2, `the question is on level ${level}`);
  await page.until(`/waited/.test(document.querySelector('.sums').innerText)`, 'a wait that counts');
  await page.until(`${CHIP} === 'waiting'`);
  await page.type('Reason', 'not today');
  await page.click('button', 'Reject');
  await page.until(`${CHIP} === 'ok'`);
  await page.until(`/approval, rejected/.test(${row('Send from inside?')}.innerText)`, 'the rejection');
  // The keyboard moves in it from wherever the focus is, and opens.
  await page.eval('document.activeElement.blur()');
  await page.press('j', 'KeyJ');
  await page.press('Home');
  await page.press('Enter');
  await page.until(`document.querySelector('.detail article h2')?.textContent === 'probe'`);
  await page.click('.detail button', 'Zoom to it');
  await page.click('button', 'Whole run');

  // What a call is, and why it failed.
  await page.open(`${base}/#/runs/${failed}`);
  await page.sees('Decided by: capability tool:files__delete');
  await page.click('.why-ended button');
  await page.until(`document.querySelector('.detail')?.innerText.includes('tool:files__delete')`);

  // A run is cut off, resumed, and cancelled; its attempts are told apart.
  await page.open(`${base}/#/runs/${sleeper}`);
  await page.until(`${CHIP} === 'running'`);
  await ask('restart');
  await page.until(`${CHIP} === 'interrupted'`);
  await page.sees('Decided by: the end of the process that carried it out');
  assertEqual((await page.eval(ROWS))[0][0], 1, 'the level of the run');
  await page.click('button', 'Resume');
  await page.click('dialog button', 'Resume');
  await page.until(`${CHIP} === 'running'`);
  // What was said of its end holds no longer.
  await page.until(`document.querySelector('.why-ended') === null`);
  await page.click('button', 'Cancel');
  // A question is about what is in sight.
  await page.eval('history.back()');
  await page.until(`document.querySelector('dialog') === null`);
  await page.open(`${base}/#/runs/${sleeper}`);
  await page.click('button', 'Cancel');
  await page.click('dialog button', 'Cancel the run');
  await page.until(`${CHIP} === 'cancelled'`);
  await page.sees('Decided by: whoever cancelled or stopped it');
  await page.until(`document.querySelectorAll('.attempts li').length === 2`);
  await page.until(`/run, cancelled/.test(document.querySelector('[role=treeitem]').innerText)`, 'the end of its row');

  // The same input is the whole of it, also where the ledger has it elsewhere.
  await page.open(`${base}/#/runs/${large}`);
  await page.until(`${CHIP} === 'ok'`);
  await page.click('button', 'Run again');
  await page.click('dialog button', 'Run it again');
  await page.until(`location.hash.startsWith('#/runs/run_') && !location.hash.endsWith('${large}')`);
  await page.until(`${CHIP} === 'ok'`);
});
