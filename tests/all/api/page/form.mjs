// A form tells what its schema allows, and starts nothing that it does not.

import { assert, assertEqual, scenario } from './chromium.mjs';

const [base] = process.argv.slice(2);
/** What is said at the field that has the focus. */
const SAID_THERE = `document.getElementById(document.activeElement.getAttribute('aria-describedby')?.split(' ').at(-1))?.innerText`;
const IS_INVALID = `document.activeElement.getAttribute('aria-invalid') === 'true'`;

await scenario(async (page) => {
  await page.open(`${base}/#/skills/probe`);
  for (const text of ['1 to 8 characters', '0 to 18446744073709551615', 'at least 1 entry']) await page.sees(text);
  assertEqual(await page.eval(`[...document.querySelectorAll('legend')].map((one) => one.innerText).filter((one) => one.startsWith('words'))`),
    ['words (required)'], 'the mark of a list');

  const refused = async (words) => {
    await page.click('button', 'Start');
    await page.until(`${IS_INVALID} && ${SAID_THERE} === ${JSON.stringify(words)}`, `${words} at the field`);
  };
  await page.type('verb', 'much too long');
  await refused('1 to 8 characters are expected');
  // What is mended is not held against it any more.
  await page.type('verb', 'noop');
  await page.until(`document.querySelector('.field-problem') === null`);
  await page.type('size', '18446744073709551616');
  await refused('0 to 18446744073709551615 is expected');
  await page.type('size', '18446744073709551615');
  await refused('at least 1 entry is expected');
  await page.click('button', 'Add to words');
  await page.sees('pattern ^(a+)+$');
  await page.type('words 1', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!');

  // The digits are what was typed, in both ways to see them.
  await page.click('label', 'JSON');
  assert((await page.eval(`document.getElementById('raw-input').value`)).includes('18446744073709551615'), 'the digits are lost');
  await page.click('label', 'Form');
  // The pattern is not tried here: this one takes longer than anybody waits.
  await page.click('button', 'Start');
  await page.until(`location.hash.startsWith('#/runs/run_')`);
});
