// A daemon with a token: it is asked for once, kept for the tab, and is in no address.

import { assert, assertEqual, inaccessible, scenario } from './chromium.mjs';

const [base, token, axe] = process.argv.slice(2);
const DIALOG = `document.querySelector('dialog[open]') !== null`;

await scenario(async (page) => {
  await page.open(`${base}/`);
  await page.until(DIALOG, 'a dialog');
  assert(!(await page.eval('document.body.innerText')).includes('greet'), 'data without a token');
  assertEqual(await inaccessible(page, axe), [], 'what axe says of the dialog');
  // What no header can hold is said to be none, and nothing is locked.
  await page.type('Token', 'schlüssel ☃');
  await page.click('button', 'Use it');
  await page.until(`document.querySelector('dialog[open]')?.innerText.includes('No token has such characters')`);

  // Whoever goes on without is asked no more, and told why there is nothing.
  await page.click('button', 'Go on without');
  await page.until(`document.getElementById('notice').innerText.includes('This daemon needs a token.')`);
  await page.click('nav a[data-path=skills]');
  await page.until(`document.querySelector('h1')?.textContent === 'Skills'`);
  await page.until(`document.querySelector('main .note.bad') !== null`, 'what was refused');
  await page.click('nav a[data-path=runs]');
  await page.sees('The runs cannot be read: the daemon wants a token.');
  assert(!(await page.eval(`document.querySelector('main').innerText`)).includes('No runs yet'), 'it is said that there are none');
  assert(!(await page.eval(DIALOG)), 'asked again');
  assertEqual(await inaccessible(page, axe), [], 'what axe says without a token');

  await page.click('#notice button', 'Enter it');
  await page.until(DIALOG, 'a dialog that is asked for');
  await page.type('Token', 'not-the-token-at-all');
  await page.click('button', 'Use it');
  await page.until(`document.querySelector('dialog[open]')?.innerText.includes('not the one')`);
  assertEqual(await page.eval('sessionStorage.length'), 0, 'what is kept of a token that is wrong');
  await page.type('Token', token);
  await page.press('Enter');
  await page.until(`!(${DIALOG})`);
  await page.until(`document.getElementById('notice').hidden`);
  await page.sees('No runs yet');
  // A stream is open, by a ticket, though the first one was refused.
  await page.until(`document.querySelector('header [aria-label="Live"]') !== null`, 'a stream that is open');
  for (const [view, text] of [['skills', 'Greets a person'], ['skills/greet', 'Last runs'], ['executions', 'Launch an agent'], ['health', 'writable']]) {
    await page.open(`${base}/#/${view}`);
    await page.sees(text);
    assert(!(await page.eval(DIALOG)), `${view}: asked again`);
  }
  await page.open(`${base}/#/skills/greet`);
  await page.type('name', 'Ada');
  await page.click('button', 'Start');
  await page.until(`location.hash.startsWith('#/runs/run_')`);
  await page.reload();
  await page.until(`document.querySelector('header [aria-label="Live"]') !== null`, 'a stream that is open again');
  assert(!(await page.eval(DIALOG)), 'asked again after a reload');
  assertEqual(await page.eval('localStorage.length + document.cookie.length'), 0, 'kept beyond the tab');
  const told = page.addresses.filter((address) => address.includes(token));
  assertEqual(told, [], 'addresses with the token');
  assert(page.addresses.some((address) => address.includes('ticket=')), 'no stream was opened by a ticket');
  const foreign = page.addresses.filter((address) => !address.startsWith(base) && !/^(data:|about:)/.test(address));
  assertEqual(foreign, [], 'foreign addresses');
});
