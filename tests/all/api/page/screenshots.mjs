// Pictures of the inspector for its documentation, dark and light: `cargo xtask screenshots` runs this against a daemon that
// has the skills `triage` and `greet` and the agent `probe-agent`, and fills it with what is to be seen.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scenario } from './chromium.mjs';

const [base, folder] = process.argv.slice(2);
const WIDTH = 1200;
const HEIGHT = 900;
const SCHEMES = ['light', 'dark'];
const TICKETS = [
  ['T-1', 'Checkout is down for all customers'],
  ['T-2', 'The invoice of May has a typo'],
  ['T-3', 'Production is on fire, nobody can log in'],
];

async function ask(method, path, body) {
  const answer = await fetch(`${base}${path}`, {
    method, headers: { 'Content-Type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const document = await answer.json();
  if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(document)}`);
  return document;
}

/** Runs and an execution as a day leaves them behind; gives those that are shown. */
async function fill(page) {
  for (const name of ['Ada', 'Grace', 'Edsger']) await ask('POST', '/api/agent/runs?wait=60000', { skill_name: 'greet', input: { name } });
  await ask('POST', '/api/agent/runs?wait=60000', { skill_name: 'greet', input: { name: '' } });
  const runs = [];
  for (const [id, text] of TICKETS) runs.push((await ask('POST', '/api/agent/runs', { skill_name: 'triage', input: { id, text } })).run_id);
  const urgent = await asked(page, runs[0]);
  await ask('POST', `/api/agent/runs/${runs[0]}/approve`, { decision: 'approve', approval_id: urgent, reason: 'it is really down' });
  await asked(page, runs[2]);
  const launched = await ask('POST', '/api/agent/executions', {
    agent_profile_id: 'probe-agent',
    prompt: 'reason The board has three tickets. T-1 is urgent.\nplan\necho I looked at the board: one ticket is urgent, and one can wait.\nwindow 1200 8000',
    metadata: { launch_request: { session_id: 'board-7' } },
  });
  await ask('POST', `/api/agent/executions/${launched.id}/prompt`, { prompt: 'skill greet {"name": "Ada"}\npermission Close the tickets that are done?' });
  await asked(page, launched.id.replace(/^exec_([0-9a-f]+)_.*$/, 'run_$1'));
  return { ended: runs[0], execution: launched.id };
}

/** Waits until a run asks something, and gives the id of the question. */
async function asked(page, runId) {
  return page.until(`await fetch('${base}/api/approvals?run_id=${runId}').then((answer) => answer.json())
    .then(({ approvals }) => approvals[0]?.approval_id)`, `a question of ${runId}`);
}

await scenario(async (page) => {
  mkdirSync(folder, { recursive: true });
  await page.call('Emulation.setDeviceMetricsOverride', { width: WIDTH, height: HEIGHT, deviceScaleFactor: 1, mobile: false });
  await page.open(`${base}/`);
  const { ended, execution } = await fill(page);
  const pictures = [
    ['runs', '#/runs', `document.querySelectorAll('.chip.waiting').length === 2`],
    ['waterfall', `#/runs/${ended}`, `document.querySelectorAll('[role=treeitem]').length > 6`],
    ['approval', '#/approvals', `document.querySelectorAll('.answer').length === 2`],
    ['chat', `#/executions/${execution}`, `document.querySelectorAll('.permission').length === 1`],
    ['skill', '#/skills/triage', `document.querySelectorAll('table').length > 1`],
  ];
  for (const scheme of SCHEMES) {
    await page.call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    for (const [name, view, isThere] of pictures) {
      await page.open(`${base}/${view}`);
      await page.until(isThere);
      await page.until(`document.querySelector('header [aria-label="Live"]') !== null`);
      await page.until(`document.getElementById('pending').textContent === '2'`);
      // What changes with each second is drawn once more.
      await page.eval('new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); })');
      const { data } = await page.call('Page.captureScreenshot', { format: 'png', optimizeForSpeed: false });
      writeFileSync(join(folder, `${name}-${scheme}.png`), Buffer.from(data, 'base64'));
    }
  }
}, { width: WIDTH, height: HEIGHT });
