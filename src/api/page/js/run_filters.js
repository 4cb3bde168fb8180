// Which runs are wanted: filters as they stand in the address, and the fields that change them.

import { now } from './clock.js';
import { fill, h } from './dom.js';
import * as format from './format.js';

const STATUSES = ['running', 'ok', 'error', 'cancelled', 'suspended', 'interrupted', 'corrupt'];
const SINCE = [['', 'any time'], ['1h', 'last hour'], ['1d', 'last day'], ['7d', 'last week'], ['30d', 'last month']];
const SINCE_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };
/** Milliseconds after which a filter that is typed counts. Protects the daemon from a question for each letter. */
const TYPED_MS = 250;
const RUN_ID = /^run_[0-9a-f]{32}$/;
/** Those filters that the daemon knows; the search looks through what was read. */
export const ASKED = ['status', 'skill', 'since', 'parent'];

/** The filters of a fragment's query. */
export function filtersOf(query) {
  return Object.fromEntries([...ASKED, 'q'].map((name) => [name, query.get(name) ?? '']));
}

export function fragmentOf(filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
  return query ? `#/runs?${query}` : '#/runs';
}

/** Whether there are runs of such a status, so that it is worth asking for them. */
export function isStatus(status) {
  return !status || STATUSES.includes(status);
}

/** Milliseconds since 1970 from which on runs are wanted. What only the daemon understands holds nothing back. */
function fromMs(since) {
  const [, count, unit] = /^(\d+)([mhd])$/.exec(since) ?? [];
  return unit ? now() - Number(count) * SINCE_MS[unit] : Date.parse(since);
}

/** Whether the daemon would list a run. */
export function fits(run, filters) {
  if (filters.status && run.status !== filters.status) return false;
  if (filters.parent && run.parent_run_id !== filters.parent) return false;
  if (filters.since && format.millis(run.started_at) < fromMs(filters.since)) return false;
  return !filters.skill || run.skill === filters.skill || Boolean(run.skill?.startsWith(`${filters.skill}.`));
}

/** Whether the search finds a run. */
export function isFound(run, { q }) {
  const wanted = q.toLowerCase();
  return !wanted || [run.run_id, run.skill, run.code, run.error, run.corruption].some((field) => field?.toLowerCase().includes(wanted));
}

/** A choice that has what the address says, also when that is none of them. */
function choose(select, value) {
  for (const option of [...select.options]) if (option.dataset.isForeign) option.remove();
  if (![...select.options].some((option) => option.value === value)) select.append(h('option', { value, dataset: { isForeign: 'true' } }, value));
  select.value = value;
}

/** The fields, with `show(filters)`, and `search`, the one that is searched with. */
export function createRunFilters(app) {
  let shown = null;
  let typing = null;
  const status = h('select', { id: 'f-status', onchange: changed },
    h('option', { value: '' }, 'any'), STATUSES.map((name) => h('option', { value: name }, name)));
  const since = h('select', { id: 'f-since', onchange: changed }, SINCE.map(([value, label]) => h('option', { value }, label)));
  const skills = h('datalist', { id: 'f-skills' });
  const skill = h('input', { id: 'f-skill', type: 'text', list: 'f-skills', autocomplete: 'off', spellcheck: 'false', placeholder: 'any', oninput: typed });
  const search = h('input', { id: 'f-q', type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'id, skill or error', oninput: typed });
  const parent = h('span', { class: 'parent' });
  const element = h('form', { class: 'toolbar', role: 'search', onsubmit: submitted },
    h('div', { class: 'field' }, h('label', { for: 'f-status' }, 'Status'), status),
    h('div', { class: 'field' }, h('label', { for: 'f-skill' }, 'Skill'), skill, skills),
    h('div', { class: 'field' }, h('label', { for: 'f-since' }, 'Started'), since),
    h('div', { class: 'field grow' }, h('label', { for: 'f-q' }, 'Search'), search), parent,
    // Without one, Enter in a field does nothing.
    h('button', { type: 'submit', hidden: true }));

  function changed() {
    clearTimeout(typing);
    typing = null;
    const filters = { ...shown, status: status.value, skill: skill.value.trim(), since: since.value, q: search.value.trim() };
    app.go(fragmentOf(filters), { replace: true });
  }

  function typed() {
    clearTimeout(typing);
    typing = setTimeout(changed, TYPED_MS);
  }

  function submitted(event) {
    event.preventDefault();
    const wanted = search.value.trim();
    if (RUN_ID.test(wanted)) app.go(`#/runs/${wanted}`);
    else changed();
  }

  app.api.get('/api/skills').then(({ skills: known }) => {
    fill(skills, known.map(({ name }) => h('option', { value: name })));
  }).catch(() => { /* The field can be filled in without help. */ });
  return {
    element,
    search,
    show(filters) {
      shown = filters;
      choose(status, filters.status);
      choose(since, filters.since);
      for (const [field, value] of [[skill, filters.skill], [search, filters.q]]) {
        // What is being typed is not in the address yet.
        if (typing === null && field.value.trim() !== value) field.value = value;
      }
      parent.hidden = !filters.parent;
      fill(parent, filters.parent
        ? h('button', { type: 'button', onclick: () => app.go(fragmentOf({ ...filters, parent: '' }), { replace: true }) }, `Children of ${format.short(filters.parent)} ✕`)
        : null);
    },
    close: () => clearTimeout(typing),
  };
}
