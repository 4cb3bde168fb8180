// A run is started by a form, watched, and answered, by this page and then by somebody else who is first.

import { ask, assert, assertEqual, scenario } from './chromium.mjs';

const [base] = process.argv.slice(2);
const ROWS = `[...document.querySelectorAll('[role=treeitem]')].map((one) => one.innerText).join('\\n')`;
const CHIP = `document.querySelector('.run-head .chip')?.textContent`;

/** Fills the form in with one question, and starts it. */
async function start(page, prompt, payload) {
  await page.open(`${base}/#/skills/probe`);
  await page.sees('Add to calls');
  // The first choice is none.
  await page.focus('verb');
  await page.press('c', 'KeyC');
  await page.until(`document.activeElement.selectedOptions[0].text === 'calls'`);
  await page.click('button', 'Add to calls');
  await page.type('prompt', prompt);
  if (payload !== undefined) await page.type('payload', payload);
  return async () => {
    await page.click('button', 'Start');
    await page.until(`location.hash.startsWith('#/runs/run_')`);
    return page.eval(`location.hash.slice('#/runs/'.length)`);
  };
}

/** The view of a run has the same question, and is there until this one is. */
async function toApprovals(page) {
  await page.click('nav a[data-path=approvals]');
  await page.until(`document.querySelector('h1')?.textContent === 'Approvals'`);
}

const DIALOG = `document.querySelector('dialog[open]')?.innerText`;

/** On another page: the line, its dialog, somebody who is first, and a rejection. */
async function inTheTray(page) {
  const third = await ask('ask Send 5 letters?');
  await page.click('nav a[data-path=health]');
  await page.until(`document.getElementById('tray').innerText.includes('Send 5 letters?')`);
  await page.eval(`document.querySelector('.tray button').focus()`);
  await ask('ask Send 6 letters?');
  await page.until(`document.getElementById('tray').innerText.includes('and another one')`);
  assert(await page.eval(`document.activeElement === document.querySelector('.tray button')`), 'the button lost the focus');
  await page.press('Enter');
  await page.until(`${DIALOG}?.includes('Send 6 letters?')`);
  const card = (prompt, selector) => `[...document.querySelectorAll('dialog .answer')].find((one) => one.innerText.includes('${prompt}')).querySelector('${selector}')`;
  await page.eval(`${card('Send 5 letters?', 'textarea')}.focus()`);
  await page.call('Input.insertText', { text: 'I think so' });
  await ask(`answer ${third}`);
  await page.until(`${DIALOG}?.includes('Somebody was first: it was rejected over HTTP.')`, 'who was first');
  await page.until(`${DIALOG}.includes('there is no paper')`, 'why');
  await page.eval(`${card('Send 6 letters?', 'button.danger')}.focus()`);
  await page.press('Enter');
  await page.until(`${DIALOG}.includes('Rejected; it is on record.')`, 'the rejection');
  await page.until(`document.getElementById('tray').hidden`);
  assert(await page.eval(`${DIALOG}.includes('Rejected; it is on record.')`), 'the outcome vanished');
  assert(await page.eval(`document.activeElement === ${card('Send 6 letters?', 'button.danger')}`), 'the focus was lost');
  await page.click('dialog button', 'Close');
  await page.until(`document.activeElement.id === 'main'`);
}

/** On the page of a run: somebody was first when the answer comes to the daemon. */
async function onTheRun(page) {
  const run = await ask('ask Send 7 letters?');
  await page.open(`${base}/#/runs/${run}`);
  await page.sees('Send 7 letters?');
  await page.eval(`{
    const real = window.fetch;
    window.fetch = async (path, options) => {
      if (String(path).endsWith('/approve')) {
        window.fetch = real;
        await real(path, { ...options, body: JSON.stringify({ decision: 'reject', reason: 'no stamps' }) });
      }
      return real(path, options);
    };
  }`);
  await page.click('button', 'Approve');
  await page.sees('Somebody was first: it was rejected on a page.');
  await page.sees('no stamps');
  await page.until(`document.getElementById('pending').hidden`);
  await page.sees('Somebody was first: it was rejected on a page.');
}

/** Nobody answers in time, while somebody is just writing. */
async function tooLate(page) {
  await page.open(`${base}/#/approvals`);
  await page.sees('Nothing waits for an answer.');
  await ask('hurry Send 8 letters?');
  await page.sees('Send 8 letters?');
  await page.type('Reason', 'let me see');
  await page.sees('Nobody answered in time: it was rejected.');
  assertEqual(await page.eval(`document.activeElement.value`), 'let me see', 'what was typed');
}

await scenario(async (page) => {
  const go = await start(page, 'Send 3 letters?', '{"letters": 3}');
  // The same input as JSON, and back.
  await page.click('label', 'JSON');
  const raw = JSON.parse(await page.eval(`document.getElementById('raw-input').value`));
  assertEqual(raw, { verb: 'calls', calls: [{ call: 'ask', prompt: 'Send 3 letters?', payload: '{"letters": 3}' }] }, 'the input as JSON');
  await page.type('Input as JSON', '{"verb": ');
  await page.click('label', 'Form');
  await page.until(`document.querySelector('.pad [role=alert]').innerText !== ''`, 'what is wrong with the JSON');
  await page.type('Input as JSON', JSON.stringify(raw));
  await page.click('label', 'Form');
  await page.sees('Add to calls');
  await go();

  // It is seen at work, and asks.
  await page.sees('Send 3 letters?');
  await page.until(`${CHIP} === 'waiting'`);
  await page.until(`document.getElementById('pending').textContent === '1'`);
  await page.reload();
  await page.sees('Send 3 letters?');
  await toApprovals(page);
  await page.sees('"letters": 3');
  await page.type('Reason', 'they are due');
  await page.click('button', 'Approve');
  await page.until(`document.getElementById('pending').hidden`);
  // Back in the list, the end is seen without a reload.
  await page.click('nav a[data-path=runs]');
  await page.until(`/probe[^]*ok/.test(${ROWS})`);

  const second = await (await start(page, 'Send 4 letters?'))();
  await page.sees('Send 4 letters?');
  await toApprovals(page);
  await page.sees('Send 4 letters?');
  await page.type('Reason', 'why not');
  await ask(`answer ${second}`);
  await page.sees('there is no paper');
  await page.sees('Somebody was first');
  assert(await page.eval(`[...document.querySelectorAll('.answer .actions button')].every((one) => one.ariaDisabled === 'true')`), 'it can still be answered');

  await inTheTray(page);
  await onTheRun(page);
  await tooLate(page);
});
