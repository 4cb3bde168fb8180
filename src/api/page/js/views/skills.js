// Skills: which there are, what each may do, and a form to start a run by hand.

import { launchPad } from '../launch_pad.js';
import { line, text } from '../dom.js';

/** Runs of a skill that are shown. */
const LAST_RUNS_MAX = 10;
/** Findings of a refused skill that are shown; the daemon sends no more. */
const FINDINGS_MAX = 20;

export default {
  title(params) {
    return params.id === null ? 'Skills' : `Skill ${params.id}`;
  },
  mount(root, params, app) {
    const aborting = new AbortController();
    const show = params.id === null ? showAll : showOne;
    show(root, params, app, aborting.signal).catch((error) => {
      if (error.name === 'AbortError') return;
      root.querySelector('[aria-busy]')?.replaceChildren(app.h('p', { class: 'note bad' }, `${error.message} ${error.hint ?? ''}`));
    });
    return () => aborting.abort();
  },
};

async function showAll(root, _params, app, signal) {
  const { h } = app;
  root.append(h('h1', {}, 'Skills'));
  const list = h('div', { 'aria-busy': 'true' }, h('p', { class: 'dim' }, 'Loading …'));
  root.append(list);
  const { skills, refused } = await app.api.get('/api/skills', { signal });
  list.removeAttribute('aria-busy');
  list.replaceChildren(
    skills.length === 0 ? h('p', {}, 'No skill is installed.') : skillTable(app, skills),
    ...(refused.length === 0 ? [] : [refusedList(app, refused)]),
  );
}

function skillTable({ h, format }, skills) {
  const rows = skills.map((skill) => h('tr', {},
    h('th', { scope: 'row' }, h('a', { href: `#/skills/${encodeURIComponent(skill.name)}` }, skill.name)),
    h('td', {}, line(skill.description)),
    h('td', {}, skill.flavor ?? ''),
    h('td', {}, chip(h, skill.enabled ? 'enabled' : 'disabled'), ' ', skill.pinned ? '' : chip(h, 'not pinned')),
    h('td', {}, h('code', { title: skill.digest }, format.short(skill.digest)))));
  return scrolled(h, 'Skills', h('table', { class: 'skills' },
    h('thead', {}, h('tr', {}, ...['Name', 'What it does', 'Language', 'State', 'Digest']
      .map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, ...rows)));
}

function refusedList({ h }, refused) {
  const items = refused.map((skill) => h('li', {},
    h('strong', {}, skill.name), ' ', chip(h, 'refused'),
    h('ul', {}, ...skill.findings.slice(0, FINDINGS_MAX).map((found) => h('li', {}, finding(h, found)))),
    skill.findings_total > skill.findings.length
      ? h('p', { class: 'dim' }, `${skill.findings_total - skill.findings.length} more findings: skillrun skills lint shows them.`)
      : ''));
  return h('section', { class: 'card', 'aria-labelledby': 'refused' },
    h('h2', { id: 'refused' }, 'Refused'),
    h('p', { class: 'dim' }, 'These cannot be used until what is wrong with them is mended.'),
    h('ul', { class: 'refused' }, ...items));
}

function finding(h, found) {
  const place = [found.file, found.line, found.column].filter((part) => part !== undefined).join(':');
  return [place === '' ? '' : h('code', {}, `${place}: `), found.message];
}

async function showOne(root, params, app, signal) {
  const { h } = app;
  const name = params.id;
  root.append(h('h1', {}, name));
  const body = h('div', { 'aria-busy': 'true' }, h('p', { class: 'dim' }, 'Loading …'));
  root.append(body);
  const [detail, runs] = await Promise.all([
    app.api.get(`/api/skills/${encodeURIComponent(name)}`, { signal }),
    app.api.get(`/api/agent/runs?limit=${LAST_RUNS_MAX}&skill=${encodeURIComponent(name)}`, { signal }),
  ]);
  body.removeAttribute('aria-busy');
  const { skill } = detail;
  const isRunnable = skill.enabled && skill.component_digest !== undefined;
  body.replaceChildren(
    h('p', { class: 'lead' }, skill.description),
    ...(isRunnable ? [begin(app, name, detail.descriptor)] : []),
    section(h, 'Policy', policy(h, detail.policy)),
    section(h, 'Limits', limits(app, detail.limits)),
    section(h, 'About', about(app, detail)),
    section(h, 'Last runs', lastRuns(app, name, runs.runs)),
  );
}

/** How somebody begins with the skill: an agent is launched, anything else is run. */
function begin(app, name, descriptor) {
  const { h } = app;
  if (!descriptor?.agent) return section(h, 'Start a run', launchPad(app, name, descriptor));
  return section(h, 'Launch', h('p', {}, 'It is an agent, which lives on between prompts. ',
    h('a', { href: `#/executions?agent=${encodeURIComponent(name)}` }, 'Launch it')));
}

function section(h, title, ...children) {
  const id = `section-${title.toLowerCase().replaceAll(' ', '-')}`;
  return h('section', { class: 'card', 'aria-labelledby': id }, h('h2', { id }, title), ...children);
}

/** Which colour a word has. */
const LOOKS = { enabled: 'ok', allowed: 'ok', missing: 'waiting', 'not pinned': 'waiting', refused: 'error' };

function chip(h, word) {
  return h('span', { class: `chip ${LOOKS[word] ?? word}` }, word);
}

/** Something wide, which scrolls by itself and can be scrolled by keyboard. */
function scrolled(h, label, child) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, child);
}

function policy(h, { requested, granted, effective, missing }) {
  const all = [...new Set([...requested, ...granted.map((grant) => grant.capability), ...effective])].sort();
  if (all.length === 0) return h('p', {}, 'It asks for nothing and may do nothing beside computing.');
  const rows = all.map((capability) => {
    const sources = granted.filter((grant) => grant.capability === capability).map((grant) => grant.source);
    return h('tr', {},
      h('th', { scope: 'row' }, h('code', {}, capability)),
      h('td', {}, requested.includes(capability) ? 'yes' : 'no'),
      h('td', {}, sources.length === 0 ? 'no' : `by ${sources.join(', ')}`),
      h('td', {}, effective.includes(capability) ? chip(h, 'allowed') : chip(h, missing.includes(capability) ? 'missing' : 'not in force')));
  });
  return scrolled(h, 'Capabilities', h('table', { class: 'policy' },
    h('thead', {}, h('tr', {}, ...['Capability', 'Requested', 'Granted', 'Effective'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, ...rows)));
}

function limits({ h, format }, byKey) {
  const rows = Object.entries(byKey).map(([key, { value, source }]) => h('tr', {},
    h('th', { scope: 'row' }, h('code', {}, key)),
    h('td', { class: 'number' }, limitValue(format, key, value)),
    h('td', {}, source === 'default' ? h('span', { class: 'dim' }, source) : chip(h, source))));
  return h('details', {},
    h('summary', {}, `${rows.length} limits, ${set(byKey)} of them set`),
    scrolled(h, 'Table of limits', h('table', { class: 'limits' },
      h('thead', {}, h('tr', {}, ...['Limit', 'Value', 'Set by'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', {}, ...rows))));
}

function set(byKey) {
  return Object.values(byKey).filter(({ source }) => source !== 'default').length;
}

/** A limit in the unit with which its key ends. One that a double cannot hold stays as it is spelled. */
function limitValue(format, key, value) {
  if (typeof value !== 'number') return format.count(value);
  if (key.endsWith('_ms')) return format.duration(value * 1_000);
  if (/bytes(_max)?$/.test(key)) return format.bytes(value);
  return format.count(value);
}

function about({ h }, { skill, license, compatibility, descriptor, failure, warnings }) {
  const facts = [
    ['Version', descriptor?.version],
    ['Language', skill.flavor],
    ['State', `${skill.enabled ? 'enabled' : 'disabled'}, ${skill.pinned ? 'pinned' : 'pinned when it is first run'}`],
    ['License', license],
    ['Needs', compatibility],
    ['Digest', skill.digest],
    ['Component', skill.component_digest],
  ].filter(([, value]) => value !== undefined && value !== '');
  const schemas = descriptor === undefined ? [] : [
    ['Schema of the input', descriptor.input_schema],
    ['Schema of the result', descriptor.output_schema],
  ].filter(([, schema]) => schema !== null);
  return h('div', {},
    failure === undefined ? '' : h('p', { class: 'note bad' }, `It cannot be asked what it is (${failure.code}): ${failure.detail}`),
    h('dl', { class: 'facts' }, ...facts.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    ...warnings.map((found) => h('p', { class: 'note warn' }, 'Odd: ', finding(h, found))),
    ...schemas.map(([name, schema]) => h('details', {}, h('summary', {}, name),
      text(JSON.stringify(schema, null, 2), { label: name }))),
    ...(descriptor?.refused_functions ?? []).map((refused) => h('p', { class: 'dim' },
      h('code', {}, refused.name), ` cannot be called: ${refused.reason}`)));
}

function lastRuns({ h, format }, name, runs) {
  const rows = runs.map((run) => h('tr', {},
    h('th', { scope: 'row' }, h('a', { href: `#/runs/${run.run_id}` }, format.short(run.run_id))),
    h('td', {}, chip(h, run.status)),
    h('td', {}, run.code ?? ''),
    h('td', {}, h('time', { datetime: run.started_at ?? '', title: run.started_at ?? '' }, format.ago(run.started_at)))));
  if (rows.length === 0) return h('p', {}, 'It was not run yet.');
  return h('div', {},
    scrolled(h, 'Table of last runs', h('table', {},
      h('thead', {}, h('tr', {}, ...['Run', 'Status', 'Code', 'Started'].map((title) => h('th', { scope: 'col' }, title)))),
      h('tbody', {}, ...rows))),
    h('p', {}, h('a', { href: `#/runs?skill=${encodeURIComponent(name)}` }, 'All runs of this skill')));
}
