// What takes a whole ledger: why a run ended, large values, verifying, replaying, and going on from a step.

import { ask, assert, assertEqual, scenario } from './chromium.mjs';

const [base, failed, large, stepped, folder] = process.argv.slice(2);

await scenario(async (page) => {
  await page.call('Page.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  await page.open(`${base}/`);
  await page.sees('$0.005');

  await page.open(`${base}/#/runs/${failed}`);
  await page.sees('Decided by: limit llm_cost_microusd = 10000, set by config');
  await page.sees('To change it: set limits.llm_cost_microusd to a larger value in config.toml');
  await page.click('.why-ended button');
  await page.until(`document.querySelector('.detail article') !== null`);

  await page.open(`${base}/#/runs/${large}`);
  // Large values are read only when somebody wants that.
  await page.sees('It was not verified yet.');
  await page.click('button', 'Verify');
  await page.sees('2 large values, chained');
  await page.click('[aria-label="About the run"] button', 'Fetch the whole');
  await page.sees('It was fetched whole, as it is stored.');
  await page.click('[aria-label="About the run"] button', 'Download');
  assertEqual(await ask('download'), 'whole', 'the file');
  await page.click('button', 'Replay');
  await page.sees('The skill does the same again.');
  await ask('damage');
  await page.click('button', 'Verify');
  await page.sees('corrupt');

  await page.open(`${base}/#/runs/${stepped}`);
  await page.click('summary', 'Resume points');
  await page.click('button', 'Resume from step:two#2');
  await page.click('dialog button', 'Begin it');
  await page.until(`!location.hash.endsWith('${stepped}')`);
  await page.sees('Repeats the beginning of');
  await page.sees('two');

  // An agent is not run but launched.
  await page.open(`${base}/#/skills/probe-agent`);
  await page.click('a', 'Launch it');
  await page.sees('Mode of its tools');
  assert(await page.eval(`document.getElementById('launch-agent').value === 'probe-agent'`), 'the agent is not filled in');
});
