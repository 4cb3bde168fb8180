// The list of executions and its form: what is typed stays, and whoever goes elsewhere is not called back.

import { assertEqual, scenario } from './chromium.mjs';

const [base] = process.argv.slice(2);
const TYPED = `['agent', 'prompt'].map((name) => document.getElementById('launch-' + name).value)`;

await scenario(async (page) => {
  await page.open(`${base}/#/executions`);
  await page.sees('No agent was launched yet.');
  await page.click('summary', 'Launch an agent');
  await page.type('Agent', 'probe-agent');
  await page.type('First prompt', 'echo Good day');
  await page.focus('Status');
  await page.press('f', 'KeyF');
  await page.until(`location.hash === '#/executions?status=failed'`);
  await page.sees('No execution fits these filters.');
  assertEqual(await page.eval(TYPED), ['probe-agent', 'echo Good day'], 'what was typed');
  assertEqual(await page.eval('document.activeElement.id'), 'execution-status', 'the focus');

  await page.click('summary', 'More');
  for (const [metadata, words] of [['[1]', 'Metadata: an object is expected'], ['null', 'Metadata: an object is expected'],
    ['{"launch_request": "now"}', 'launch_request of the metadata: an object is expected']]) {
    await page.type('Metadata (JSON)', metadata);
    await page.click('button', 'Launch');
    await page.sees(words);
  }
  await page.type('Metadata (JSON)', '{"letters": 3}');

  // The answer to the launch is held back until another view is shown.
  const paused = new Promise((resolve) => { page.on('Fetch.requestPaused', resolve); });
  await page.call('Fetch.enable', { patterns: [{ urlPattern: '*/api/agent/executions', requestStage: 'Response' }] });
  await page.click('button', 'Launch');
  const { requestId } = await paused;
  await page.click('nav a[data-path=skills]');
  await page.sees('Refused');
  await page.call('Fetch.continueRequest', { requestId });
  await page.until(`document.getElementById('said').textContent === 'The agent is launched.'`);
  assertEqual(await page.eval('location.hash'), '#/skills', 'where the person is');
  await page.call('Fetch.disable');

  // A link fills the form in, also where the list is shown already.
  await page.click('nav a[data-path=executions]');
  await page.until(`document.querySelectorAll('table.executions tbody tr').length === 1`);
  await page.eval(`location.hash = '#/executions?agent=greet&mode=office'`);
  await page.until(`document.getElementById('launch-agent').value === 'greet' && document.getElementById('launch-mode').value === 'office'`);
});
