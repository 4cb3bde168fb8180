// Every view, dark and light, wide and narrow, is looked at by axe, and fits where it is.

import { assert, inaccessible, scenario } from './chromium.mjs';

const [base, axe, waiting, ended, execution, failed] = process.argv.slice(2);
/** Each view, and what is there when it is drawn. */
const VIEWS = [
  ['#/runs', 'greet'],
  [`#/runs/${waiting}`, 'Send 3 letters?'],
  [`#/runs/${ended}`, 'compose'],
  [`#/runs/${failed}`, 'Decided by'],
  ['#/approvals', 'Send 3 letters?'],
  ['#/executions', 'probe-agent'],
  ['#/executions?agent=probe-agent', 'Mode of its tools'],
  [`#/executions/${execution}`, 'Delete 3 letters?'],
  ['#/skills', 'Refused'],
  ['#/skills/greet', 'Last runs'],
  ['#/skills/probe', 'Add to calls'],
  ['#/health', 'How runs ended'],
];

const complaints = [];

await scenario(async (page) => {
  for (const [width, scheme] of [[1280, 'light'], [360, 'dark'], [360, 'light'], [1280, 'dark']]) {
    await page.call('Emulation.setDeviceMetricsOverride', { width, height: 800, deviceScaleFactor: 1, mobile: false });
    await page.call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    for (const [view, text] of VIEWS) {
      const where = `${view} ${width} ${scheme}`;
      await page.open(`${base}/${view}`);
      await page.sees(text);
      for (const complaint of await inaccessible(page, axe)) complaints.push([where, ...complaint]);
      const overflow = await page.eval('document.documentElement.scrollWidth - document.documentElement.clientWidth');
      if (overflow > 0) complaints.push([where, `${overflow} pixels stick out`]);
    }
  }
  // What can be opened of a run, with everything in it, and the question before something is done.
  await page.open(`${base}/#/runs/${ended}`);
  await page.click('[role=treeitem]:nth-child(2) .name');
  await page.until(`document.querySelector('.detail article') !== null`);
  await page.click('button', 'Replay');
  await page.sees('The skill does the same again.');
  await page.eval(`document.querySelectorAll('main details').forEach((one) => { one.open = true; })`);
  await page.sees('Resume from step:');
  for (const complaint of await inaccessible(page, axe)) complaints.push(['what is opened of a run', ...complaint]);
  await page.click('button', 'Run again');
  await page.until(`document.querySelector('dialog[open]') !== null`);
  for (const complaint of await inaccessible(page, axe)) complaints.push(['a confirmation', ...complaint]);
  await page.click('dialog button', 'Do nothing');
  // The dialog of the line that is on every page, and a failure.
  await page.click('#tray button', 'Answer');
  await page.until(`document.querySelector('dialog[open] .answer') !== null`);
  for (const complaint of await inaccessible(page, axe)) complaints.push(['the dialog of questions', ...complaint]);
  await page.click('dialog button', 'Close');
  await page.open(`${base}/#/runs?since=never`);
  await page.sees('The runs cannot be read');
  await page.eval(`{
    const real = window.fetch;
    window.fetch = async (path, options) => {
      if (!String(path).startsWith('/api/approvals')) return real(path, options);
      window.fetch = real;
      return new Response('{"detail":"no room","hint":"make some","request_id":"1"}', { status: 507 });
    };
  }`);
  await page.click('nav a[data-path=approvals]');
  await page.until(`document.getElementById('failed').innerText.includes('make some')`);
  for (const complaint of await inaccessible(page, axe)) complaints.push(['a failure', ...complaint]);
  await page.open(`${base}/#/health`);
  await page.sees('How runs ended');
  assert(complaints.length === 0, JSON.stringify(complaints, null, 1));
  // Of what is counted there are lines.
  await page.until(`document.querySelectorAll('.chart polyline').length > 3`);
  // The colours can be chosen too, and are kept.
  const back = () => page.eval('getComputedStyle(document.body).backgroundColor');
  const dark = await back();
  await page.click('button.theme');
  assert(await back() !== dark, 'the colours are the same');
  await page.reload();
  await page.sees('Health');
  assert(await back() !== dark, 'the colours are not kept');
});
