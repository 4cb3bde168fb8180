// The list of runs: live, filtered by the address, with the runs that runs asked for below them.

import { now } from '../clock.js';
import { createRows } from '../rows.js';

const STATUSES = ['running', 'ok', 'error', 'cancelled', 'suspended', 'interrupted', 'corrupt'];
const SINCE = [['', 'any time'], ['1h', 'last hour'], ['1d', 'last day'], ['7d', 'last week'], ['30d', 'last month']];
/** Runs of one page. */
const PAGE_RUNS = 500;
/** Runs that are kept. Protects the memory of the page. */
const RUNS_MAX = 200_000;
/** Pages that one search looks through before it asks whether to go on. Protects the daemon. */
const SEARCH_PAGES_MAX = 20;
/** Rows that a search wants to have found before it waits for somebody to scroll. */
const SEARCH_ROWS_MIN = 40;
/** How deep children are indented. */
const DEPTH_MAX = 12;
const ROW_PX = 38;
/** Milliseconds in which changes are shown together. */
const DRAW_MS = 100;
/** Milliseconds after which a filter that is typed counts. */
const TYPED_MS = 250;
const RUN_ID = /^run_[0-9a-f]{32}$/;

function filtersOf(params) {
  const filters = {};
  for (const name of ['status', 'skill', 'since', 'parent', 'q']) filters[name] = params.query.get(name) ?? '';
  return filters;
}

function fragmentOf(filters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  const text = query.toString();
  return text ? `#/runs?${text}` : '#/runs';
}

export default {
  title: () => 'Runs',

  mount(root, params, app) {
    const { h, format, api } = app;
    const { fill, line } = app.dom;
    let filters = filtersOf(params);
    let runs = new Map();
    let cursor = null;
    let isLoading = false;
    let pagesLeft = SEARCH_PAGES_MAX;
    let isMounted = true;
    let generation = 0;
    let drawing = null;
    let typing = null;
    let topAgain = null;
    let waiting = new Set();
    const closed = new Set();

    const foot = h('div', { class: 'foot dim', role: 'status' });
    const rows = createRows({
      label: 'Runs', rowPx: ROW_PX, role: 'tree', hold: 'row',
      key: (item) => item.run.run_id,
      make,
      open: (item) => app.go(`#/runs/${item.run.run_id}`),
      fold(item, isOpen) {
        if (!item.children) return;
        if (isOpen) closed.delete(item.run.run_id);
        else closed.add(item.run.run_id);
        draw();
      },
      end: () => more(),
    });
    const fields = controls();
    fill(root, h('div', { class: 'head' }, h('h1', null, 'Runs')), fields.element,
      h('div', { class: 'runs-head row-head', 'aria-hidden': 'true' }, h('span', { class: 'name' }, 'Skill'), h('span', { class: 'status' }, 'Status'),
        h('span', { class: 'why' }, 'Outcome'), h('span', { class: 'took' }, 'Duration'), h('span', { class: 'cost' }, 'Cost'), h('span', { class: 'at' }, 'Started')),
      rows.element, foot);

    function controls() {
      const status = h('select', { id: 'f-status', onchange: changed },
        h('option', { value: '' }, 'any'), STATUSES.map((name) => h('option', { value: name }, name)));
      const since = h('select', { id: 'f-since', onchange: changed }, SINCE.map(([value, label]) => h('option', { value }, label)));
      const skills = h('datalist', { id: 'f-skills' });
      const skill = h('input', { id: 'f-skill', type: 'text', list: 'f-skills', autocomplete: 'off', spellcheck: 'false', placeholder: 'any', oninput: typed });
      const q = h('input', { id: 'f-q', type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'id, skill or error', oninput: typed });
      const parent = h('span', { class: 'parent' });
      const element = h('form', { class: 'toolbar', role: 'search', onsubmit: submitted },
        h('div', { class: 'field' }, h('label', { for: 'f-status' }, 'Status'), status),
        h('div', { class: 'field' }, h('label', { for: 'f-skill' }, 'Skill'), skill, skills),
        h('div', { class: 'field' }, h('label', { for: 'f-since' }, 'Started'), since),
        h('div', { class: 'field grow' }, h('label', { for: 'f-q' }, 'Search'), q), parent,
        // Without one, Enter in a field does nothing.
        h('button', { type: 'submit', hidden: true }));
      function read() {
        return { status: status.value, skill: skill.value.trim(), since: since.value, parent: filters.parent, q: q.value.trim() };
      }
      function changed() {
        clearTimeout(typing);
        app.go(fragmentOf(read()), { replace: true });
      }
      function typed() {
        clearTimeout(typing);
        typing = setTimeout(changed, TYPED_MS);
      }
      function submitted(event) {
        event.preventDefault();
        if (RUN_ID.test(q.value.trim())) app.go(`#/runs/${q.value.trim()}`);
        else changed();
      }
      api.get('/api/skills').then(({ skills: known }) => {
        fill(skills, known.map(({ name }) => h('option', { value: name })));
      }).catch(() => { /* The field can be filled in without help. */ });
      return {
        element,
        q,
        show() {
          for (const [field, value] of [[status, filters.status], [skill, filters.skill], [since, filters.since], [q, filters.q]]) {
            if (field !== document.activeElement && field.value !== value) field.value = value;
          }
          fill(parent, filters.parent
            ? h('button', { type: 'button', onclick: () => app.go(fragmentOf({ ...filters, parent: '' }), { replace: true }) }, `Children of ${format.short(filters.parent)} ✕`)
            : null);
        },
      };
    }

    function matches(run) {
      if (filters.status && run.status !== filters.status) return false;
      if (filters.parent && run.parent_run_id !== filters.parent) return false;
      if (filters.skill && run.skill !== filters.skill && !run.skill?.startsWith(`${filters.skill}.`)) return false;
      return true;
    }

    function found(run) {
      if (!filters.q) return true;
      const wanted = filters.q.toLowerCase();
      return [run.run_id, run.skill, run.code, run.error, run.corruption].some((field) => field?.toLowerCase().includes(wanted));
    }

    /** Runs as rows: newest first, children below whoever asked for them. */
    function tree() {
      const shown = [...runs.values()].filter(found);
      const there = new Set(shown.map((run) => run.run_id));
      const below = new Map();
      const tops = [];
      for (const run of shown) {
        if (run.parent_run_id && there.has(run.parent_run_id) && run.parent_run_id !== run.run_id) {
          if (!below.has(run.parent_run_id)) below.set(run.parent_run_id, []);
          below.get(run.parent_run_id).push(run);
        } else tops.push(run);
      }
      tops.sort(newestFirst);
      const items = [];
      const stack = tops.reverse().map((run) => ({ run, depth: 0 }));
      while (stack.length) {
        const { run, depth } = stack.pop();
        const children = below.get(run.run_id);
        const isOpen = !closed.has(run.run_id);
        items.push({ run, depth, children: children?.length ?? 0, isOpen });
        if (children && isOpen) {
          children.sort(newestFirst);
          for (const child of children) stack.push({ run: child, depth: depth + 1 });
        }
      }
      return items;
    }

    function make({ run, depth, children, isOpen }) {
      const isWaiting = waiting.has(run.run_id);
      const status = isWaiting ? 'waiting' : run.status;
      const took = elapsed(run);
      const cost = typeof run.cost_usd === 'number' ? format.cost(run.cost_usd) : '';
      const fold = children
        ? h('button', { type: 'button', class: 'fold', tabindex: '-1', 'aria-label': isOpen ? 'Fold children' : 'Show children', onclick: () => toggle(run.run_id) }, isOpen ? '▾' : '▸')
        : h('span', { class: 'none' });
      const name = h('span', { class: 'name' }, fold, h('span', null, run.skill ?? 'unknown skill'),
        children ? h('span', { class: 'dim' }, `${children}`) : null,
        depth === 0 && run.parent_run_id ? h('span', { class: 'dim', title: run.parent_run_id }, `↳ of ${format.short(run.parent_run_id)}`) : null,
        h('span', { class: 'dim mono id' }, format.short(run.run_id)));
      name.style.paddingLeft = `${Math.min(depth, DEPTH_MAX) * 18}px`;
      const why = run.corruption ?? run.error ?? (run.code && run.code !== run.status && run.status !== 'suspended' ? format.words(run.code) : '');
      return {
        version: [status, depth, children, isOpen, why, took, cost, format.ago(run.started_at)].join(),
        attributes: {
          'aria-level': depth + 1,
          'aria-expanded': children ? String(isOpen) : null,
        },
        children: [name,
          h('span', { class: 'status' }, h('span', { class: `chip ${status}` }, status)),
          h('span', { class: `why ${run.status === 'error' ? 'bad' : 'dim'}`, title: line(why, 300) }, line(why, 120)),
          h('span', { class: 'took right' }, took),
          h('span', { class: 'cost right' }, cost),
          h('span', { class: 'at dim', title: format.time(run.started_at) }, format.ago(run.started_at))],
      };
    }

    function elapsed(run) {
      const from = format.micros(run.started_at);
      if (from === null) return format.duration(null);
      const to = format.micros(run.ended_at) ?? (run.status === 'running' ? now() * 1_000 : null);
      return format.duration(to === null ? null : Math.max(0, to - from));
    }

    function toggle(id) {
      if (!closed.delete(id)) closed.add(id);
      draw();
    }

    function draw() {
      drawing = null;
      if (!isMounted) return;
      const items = tree();
      rows.set(items);
      const isMore = cursor !== null;
      if (filters.q && items.length < SEARCH_ROWS_MIN) more();
      const found = items.length === 1 ? '1 run' : `${format.count(items.length)} runs`;
      fill(foot, items.length === 0 && !isLoading && !isMore
        ? h('div', { class: 'empty' }, h('p', null, Object.values(filters).some(Boolean) ? 'No run fits these filters.' : 'No runs yet. Start one under Skills.'))
        : `${found}${filters.q ? ` among ${format.count(runs.size)}` : ''}${isLoading ? ', reading…' : isMore ? ', more when you scroll' : ''} · j and k move, Enter opens, / searches`,
      isMore && filters.q && pagesLeft === 0
        ? h('button', { type: 'button', onclick: () => { pagesLeft = SEARCH_PAGES_MAX; more(); } }, 'Search older runs') : null);
    }

    function soon() {
      drawing ??= setTimeout(draw, DRAW_MS);
    }

    function queryOf(after, limit = PAGE_RUNS) {
      const query = new URLSearchParams({ limit: String(limit) });
      for (const name of ['status', 'skill', 'since', 'parent']) if (filters[name]) query.set(name, filters[name]);
      if (after) query.set('cursor', after);
      return query;
    }

    async function more() {
      if (isLoading || cursor === null || runs.size >= RUNS_MAX) return;
      if (filters.q && pagesLeft === 0) return;
      await load(cursor);
    }

    async function load(after) {
      const mine = generation;
      isLoading = true;
      pagesLeft -= filters.q ? 1 : 0;
      try {
        const page = await api.get(`/api/agent/runs?${queryOf(after)}`);
        if (mine !== generation || !isMounted) return;
        for (const run of page.runs) runs.set(run.run_id, run);
        cursor = page.next_cursor ?? null;
      } catch (error) {
        if (mine === generation && isMounted) app.fail(error);
      } finally {
        if (mine === generation) isLoading = false;
        soon();
      }
    }

    function reload() {
      generation += 1;
      runs = new Map();
      cursor = null;
      pagesLeft = SEARCH_PAGES_MAX;
      load(null);
    }

    /** The newest runs again, for what was missed and for what an event does not tell. */
    function top() {
      topAgain ??= setTimeout(async () => {
        topAgain = null;
        const mine = generation;
        try {
          const page = await api.get(`/api/agent/runs?${queryOf(null)}`);
          if (mine !== generation || !isMounted) return;
          for (const run of page.runs) runs.set(run.run_id, run);
          soon();
        } catch (error) {
          app.fail(error);
        }
      }, 500);
    }

    function heard(type, event) {
      const id = event.run_id;
      const known = runs.get(id);
      const payload = event.payload ?? {};
      if (type === 'run_started') {
        const run = { run_id: id, status: 'running', code: null, skill: payload.skill, flavor: payload.flavor, parent_run_id: payload.parent_run_id ?? null,
          started_at: event.time, ended_at: null, error: null, cost_usd: null, corruption: null };
        if (!known && matches(run)) {
          runs.set(id, run);
          soon();
        }
      } else if (type === 'run_completed' || type === 'run_resumed') {
        if (!known) return top();
        const run = type === 'run_resumed'
          ? { ...known, status: 'running', code: null, ended_at: null, error: null }
          : { ...known, status: payload.status, code: payload.code ?? null, ended_at: event.time, error: typeof payload.error === 'string' ? payload.error : null, cost_usd: payload.cost_usd ?? null };
        if (matches(run)) runs.set(id, run);
        else runs.delete(id);
        soon();
      }
    }

    const unsubscribe = app.hub.subscribe({ on: heard, missed: reload });
    const forget = app.pending.subscribe(({ approvals }) => {
      waiting = new Set(approvals.map(({ run_id: id }) => id));
      soon();
    });
    const ticking = setInterval(() => { if (!document.hidden) rows.redraw(); }, 1_000);

    function pressed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, button, a, dialog')) return;
      if (event.key === '/') {
        event.preventDefault();
        fields.q.focus();
      } else if (['j', 'k', 'Enter'].includes(event.key) && !rows.element.contains(event.target)) {
        rows.element.focus({ preventScroll: true });
        rows.press(event);
      }
    }
    document.addEventListener('keydown', pressed);

    fields.show();
    reload();

    function unmount() {
      isMounted = false;
      generation += 1;
      clearTimeout(drawing);
      clearTimeout(typing);
      clearTimeout(topAgain);
      clearInterval(ticking);
      document.removeEventListener('keydown', pressed);
      unsubscribe();
      forget();
      rows.clear();
    }
    unmount.update = (next) => {
      const before = filters;
      filters = filtersOf(next);
      fields.show();
      const isAsked = ['status', 'skill', 'since', 'parent'].some((name) => before[name] !== filters[name]);
      if (isAsked) reload();
      else {
        pagesLeft = SEARCH_PAGES_MAX;
        draw();
      }
    };
    return unmount;
  },
};

function newestFirst(one, other) {
  const a = one.started_at ?? '';
  const b = other.started_at ?? '';
  if (a !== b) return a < b ? 1 : -1;
  return one.run_id < other.run_id ? 1 : -1;
}
