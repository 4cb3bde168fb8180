// The list of runs: as a tree, by its address, live, under a mouse that is slow, and without a daemon for a while.

import { ask, assert, assertEqual, scenario } from './chromium.mjs';

const [base, parent, child, failed] = process.argv.slice(2);
/** Milliseconds that a button of the mouse is down: what goes on is drawn anew each second. */
const PRESSED_MS = 1_200;
const rowOf = (id) => `document.getElementById('row-Runs-${id}')`;
const IDS = `[...document.querySelectorAll('[role=treeitem]')].map((one) => one.id.replace('row-Runs-', ''))`;
const NOTICE = `document.getElementById('notice').innerText`;

async function shows(page, query, expected) {
  await page.open(`${base}/#/runs?${query}`);
  await page.until(`${IDS}.join() === '${expected.join()}'`, `the runs of ${query}`);
}

/** Opens a row by a slow press, and comes back. */
async function openSlowly(page, id) {
  const place = await page.placeOf(`#row-Runs-${id}`);
  await page.mouse('mousePressed', place);
  await page.eval('globalThis.pressedAt = performance.now()');
  await page.until(`performance.now() - pressedAt > ${PRESSED_MS}`);
  await page.mouse('mouseReleased', place);
  await page.until(`location.hash === '#/runs/${id}'`, 'the run that was pressed');
  await page.eval('history.back()');
  await page.until(`${rowOf(id)}?.getAttribute('aria-selected') === 'true' && document.activeElement.role === 'tree'`, 'the row that was opened');
}

async function tree(page) {
  await page.open(`${base}/#/runs`);
  await page.until(`${rowOf(child)} !== null`);
  const placed = (id) => page.eval(`['aria-level', 'aria-posinset', 'aria-setsize', 'aria-expanded'].map((name) => ${rowOf(id)}.getAttribute(name))`);
  assertEqual(await placed(failed), ['1', '1', '2', null], 'the newest run');
  assertEqual(await placed(parent), ['1', '2', '2', 'true'], 'the run that asked for another one');
  assertEqual(await placed(child), ['2', '1', '1', null], 'the run that was asked for');
  await page.click(`#row-Runs-${parent} button.fold`);
  await page.until(`${rowOf(child)} === null`);
  await page.click(`#row-Runs-${parent} button.fold`);
  await page.until(`${rowOf(child)} !== null`);
  const box = await page.eval(`document.querySelector('.rows').getBoundingClientRect().height`);
  assert(box < 200, `three rows are ${box} pixels high`);
}

async function filters(page) {
  await shows(page, 'status=error', [failed]);
  await shows(page, 'skill=greet', [child]);
  await shows(page, 'since=1h', [failed, parent, child]);
  await shows(page, `parent=${parent}`, [child]);
  await shows(page, 'q=greet', [child]);
  await shows(page, 'since=2999-01-01T00:00:00Z', []);
  await page.sees('No run fits these filters.');
  assert(await page.eval(`document.querySelector('.foot').getBoundingClientRect().bottom < innerHeight / 2`), 'what is said is below an empty box');
  await shows(page, 'status=denied', []);
  await page.sees('There is no status “denied”.');
  assertEqual(await page.eval(`document.getElementById('f-status').value`), 'denied', 'the status that is chosen');
  await page.open(`${base}/#/runs`);
  await page.type('Search', parent);
  await page.press('Enter');
  await page.until(`location.hash === '#/runs/${parent}'`, 'the run whose id was typed');
}

async function live(page) {
  await page.open(`${base}/#/runs`);
  await page.until(`${rowOf(parent)} !== null`);
  await page.eval(`document.querySelector('.rows').dataset.mark = 'same'`);
  const started = await ask('begin');
  await page.until(`${rowOf(started)}?.innerText.includes('waiting')`, 'a run that begins');
  for (let time = 0; time < 3; time += 1) await openSlowly(page, started);
  await page.eval(`document.querySelector('.rows').dataset.mark = 'same'`);
  await ask(`answer ${started}`);
  await page.until(`${rowOf(started)}.innerText.includes('ok')`, 'a run that ends');
  assert(await page.eval(`document.querySelector('.rows').dataset.mark === 'same'`), 'the list was made anew');
}

async function withoutDaemon(page) {
  const waiting = await ask('begin');
  await page.until(`${rowOf(waiting)}?.innerText.includes('waiting')`);
  await ask('stop');
  await page.until(`${NOTICE}.includes('no live connection')`, 'what is said without a daemon');
  await page.open(`${base}/#/runs?status=error`);
  await page.sees('The runs cannot be read: the daemon does not answer.');
  assert(!(await page.eval(`document.querySelector('main').innerText`)).includes('No run'), 'it is said that there is no run');
  await page.click('button', 'Try again');
  await page.sees('The runs cannot be read: the daemon does not answer.');
  await ask('start');
  await page.until(`${IDS}.join() === '${failed}'`, 'the runs of a daemon that is there again');
  await page.until(`${NOTICE} === ''`, 'nothing to say');

  // Nobody carries the run out any more: an answer alone moves nothing.
  await page.open(`${base}/#/approvals`);
  await page.click('button', 'Approve');
  await page.sees('Its run was interrupted, and goes on when it is resumed.');
  await page.click('.outcome a', 'Open the run');
  await page.until(`location.hash === '#/runs/${waiting}'`);
}

await scenario(async (page) => {
  await tree(page);
  await filters(page);
  await live(page);
  await withoutDaemon(page);
});
