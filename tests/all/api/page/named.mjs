// What is known of a call, a run, a skill and the daemon stands where people look for it.

import { assertEqual, scenario } from './chromium.mjs';

const [base, calls, real] = process.argv.slice(2);
const FACTS = (root) => `Object.fromEntries([...document.querySelectorAll('${root} dl.facts dt')].map((one) => [one.innerText, one.nextElementSibling.innerText]))`;
const BAR = (name) => `[...document.querySelectorAll('[role=treeitem]')].find((one) => one.innerText.includes('${name}')).querySelector('.lane .bar').getBoundingClientRect()`;

await scenario(async (page) => {
  await page.open(`${base}/#/runs/${calls}`);
  await page.sees('tickets__search');
  // Two calls at the same time have a lane each, one below the other.
  const [one, other] = [await page.eval(`(({ left, right, top }) => [left, right, top])(${BAR('tickets__search')})`), await page.eval(`(({ left, right, top }) => [left, right, top])(${BAR('tickets__set')})`)];
  assertEqual([one[0] < other[1], other[0] < one[1], one[2] < other[2]], [true, true, true], `lanes that overlap in time: ${one} ${other}`);

  await page.click('[role=treeitem]:nth-child(2) .name');
  await page.sees('"ticket": "T-1"');
  const facts = await page.eval(FACTS('.detail'));
  assertEqual([facts.Kind, facts.Id, facts.Effect, facts.State], ['tool', 'tool#1', 'write', 'failed'], 'what is known of a call');
  for (const text of ['Arguments 16 B', 'Result 6 B', 'Truncated: what is on record is less than what there was.', 'no such ticket']) await page.sees(text);
  await page.click('.detail summary', 'On record');
  await page.until(`/Begins\\s+line 2 [0-9a-f]{64}/.test(document.querySelector('.detail').innerText)`, 'the digest of its line');

  await page.open(`${base}/#/runs/${real}`);
  await page.sees('Took');
  for (const summary of ['Policy', 'Limits']) await page.click('.side summary', summary);
  await page.until(`/May do\\s+approval/.test(document.querySelector('.side').innerText)`, 'what it may do');
  await page.until(`/approval \\(config\\)/.test(document.querySelector('.side').innerText)`, 'who granted it');
  await page.until(`[...document.querySelectorAll('.side tr')].some((row) => /^wall_time_ms\\s+7,000\\s+config$/.test(row.innerText))`, 'a limit with its source');

  await page.open(`${base}/#/skills/probe`);
  await page.until(`[...document.querySelectorAll('main tr')].some((row) => /^approval\\s+yes\\s+by config\\s+allowed$/.test(row.innerText))`, 'what it asks for and is granted');
  await page.until(`/[0-9a-f]{64}/.test(document.querySelector('[aria-labelledby=section-about]').innerText)`, 'its digest');
  await page.until(`document.querySelector('[aria-labelledby=section-last-runs] a[href="#/runs/${real}"]') !== null`, 'its last run');
  await page.click('summary', '22 limits, 1 of them set');
  await page.until(`[...document.querySelectorAll('main tr')].some((row) => /^wall_time_ms\\s+7.00 s\\s+config$/.test(row.innerText))`, 'its limit');
  // No digit is lost of what a browser cannot hold.
  await page.sees('9223372036854775807');

  await page.open(`${base}/#/health`);
  const tile = (name, figure) => page.until(`[...document.querySelectorAll('.tile')].some((one) => one.innerText.startsWith('${name}\\n') && ${figure}.test(one.innerText))`, name);
  await tile('Queue', '/[0-9]+ waiting$/');
  await tile('Pool', '/[0-9]+ of [0-9]+ instances$/');
  await tile('Sync of a ledger', '/median /');
  await tile('Time a run worked', '/median [0-9.]+ .s/');
  await page.until(`[...document.querySelectorAll('main tr')].some((row) => /^ok\\s+ok\\s+1$/.test(row.innerText))`, 'how runs ended');
});
