// One run: what happened when, and everything that is known of it.

import { createAnswers } from '../answers.js';
import { createRecord } from '../record.js';
import { createRows } from '../rows.js';
import { outcomeCard, runCards, spanCard } from '../sides.js';
import { createTimeline, EVENT_TYPES, EVENTS_MAX, rowsOf, scaleOf, waitsOf } from '../timeline.js';
import { ask, copied } from '../value.js';

const ROW_PX = 30;
/** Milliseconds between two pictures of a run that goes on. */
const DRAW_MS = 250;
/** Milliseconds between two looks at a child run that goes on: a stream of its own for each would take the browser's connections. */
const CHILD_MS = 1_000;
/** Child runs that are shown inline at once. Protects the page and the daemon. */
const CHILDREN_MAX = 50;
const PAGE_EVENTS = 1_000;
const NAME_INDENT_PX = 14;
const INDENT_MAX = 14;
/** Pixels of the shortest bar. */
const BAR_PX_MIN = 3;
/** Waits that are marked in one bar. Protects the page. */
const MARKS_MAX = 500;
const SYMBOLS = { run: '▶', node: '◇', tool: '⚒', tools: '⚒', skill: '▶', model: '✦', http: '⇄', approval: '?', log: '·', error: '!', denied: '⊘', turn: '❯' };

export default {
  title: ({ id }) => `Run ${id?.slice(-8) ?? ''}`,

  mount(root, { id }, app) {
    const { h, format, api } = app;
    const { fill } = app.dom;
    const path = `/api/agent/runs/${encodeURIComponent(id)}`;
    let line = createTimeline(id);
    let row = null;
    let isOver = false;
    let isMounted = true;
    let isDirty = true;
    let hasPoints = true;
    let hasShortWaits = false;
    let waits = [];
    let placeAt = () => 0;
    let zoom = null;
    let close = () => {};
    let shownSide = null;
    const folded = new Set();
    const record = createRecord(path, app, touch);
    const children = new Map();
    let waitingCount = 0;

    const head = h('div', { class: 'run-head' });
    const asks = h('div', { class: 'answers' });
    const answers = createAnswers(asks, app, { wanted: (approval) => approval.run_id === id || children.has(approval.run_id), hasRun: (approval) => approval.run_id !== id });
    const side = h('aside', { class: 'side', 'aria-label': 'About the run' });
    const detail = h('div', { class: 'detail' });
    const about = h('div');
    const scale = h('div', { class: 'scale', 'aria-hidden': 'true' });
    const sums = h('p', { class: 'dim sums' });
    const rows = createRows({
      label: 'What happened', rowPx: ROW_PX, hold: 'end',
      key: (item) => item.key, make, open: (item) => select(item), fold: (item, isOpen) => fold(item, isOpen),
    });
    const points = h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: true, onchange: (event) => { hasPoints = event.target.checked; touch(); } }), 'Log and notes');
    const short = h('label', { class: 'check' }, h('input', { type: 'checkbox', onchange: (event) => { hasShortWaits = event.target.checked; touch(); } }), 'Shorten waits');
    const wide = h('button', { type: 'button', hidden: true, onclick: () => { zoom = null; touch(); } }, 'Whole run');
    side.append(detail, about);
    fill(root, head, asks, h('div', { class: 'columns' },
      h('section', { class: 'card waterfall', 'aria-label': 'Waterfall' },
        h('div', { class: 'head' }, h('h2', null, 'What happened'), h('div', { class: 'actions' }, wide, short, points)), sums, scale, rows.element),
      side));

    function touch() {
      isDirty = true;
    }

    function span() {
      const now = Date.now() * 1_000;
      const from = line.first ?? now;
      const to = isOver || line.completed ? line.last ?? now : Math.max(now, line.last ?? now);
      return { from, to: Math.max(to, from + 1), now };
    }

    function visibleSpan() {
      return zoom ?? span();
    }

    function make({ key, span: one, depth, canOpen, isOpen, children: count }) {
      const { now } = span();
      const start = one.start ?? line.first ?? now;
      const end = one.end ?? (isOver ? line.last : now);
      const left = placeAt(start);
      const right = placeAt(end);
      const isOpenEnded = one.end === null && !isOver;
      const took = one.isPoint ? '' : format.duration(one.durationMicros ?? Math.max(0, end - start));
      const state = one.isFailed ? 'failed' : isOpenEnded ? 'going' : 'done';
      const isUnanswered = one.end === null && isOver;
      const place = Math.min(100, Math.max(0, left));
      const width = Math.min(100, Math.max(0, right)) - place;
      return {
        version: [key, state, took, isOpen, count, place.toFixed(3), width.toFixed(3), one.pieces, one.again,
          one === line.root ? `${waits.length} ${waits.map((wait) => placeAt(wait.end)).slice(0, MARKS_MAX)}` : ''].join(),
        attributes: {
          class: one.kind,
          'aria-level': depth + 1,
          'aria-expanded': canOpen ? String(isOpen) : null,
        },
        children: [
          nameOf(one, depth, canOpen, isOpen, key, count),
          // Symbol and colour say it to whoever sees them.
          h('span', { class: 'unseen' }, `, ${format.words(one.kind)}, ${isUnanswered ? 'without an end' : state === 'going' ? 'going on' : state}`),
          h('span', { class: 'lane' }, bar(one, place, width, state, isUnanswered)),
          h('span', { class: 'took right' }, took)],
      };
    }

    function nameOf(one, depth, canOpen, isOpen, key, count) {
      const name = h('span', { class: `name ${one.isPoint ? 'point' : ''} ${one.isFailed ? 'bad' : ''}` },
        canOpen
          ? h('button', { type: 'button', class: 'fold', tabindex: '-1', 'aria-label': isOpen ? 'Fold' : 'Unfold', onclick: () => fold({ key, span: one }, !isOpen) }, isOpen ? '▾' : '▸')
          : h('span', { class: 'none' }),
        h('span', { class: 'symbol', 'aria-hidden': 'true' }, SYMBOLS[one.kind] ?? '·'),
        h('span', null, app.dom.line(one.label || one.kind, 120)),
        count && !isOpen ? h('span', { class: 'dim' }, `+${count}`) : null);
      name.style.paddingLeft = `${Math.min(depth, INDENT_MAX) * NAME_INDENT_PX}px`;
      return name;
    }

    function bar(one, place, width, state, isUnanswered) {
      const made = h('span', { class: `bar ${one.kind} ${state} ${one.isPoint ? 'point' : ''} ${isUnanswered ? 'cut-off' : ''}` });
      // Whatever is at the very end is still seen.
      made.style.left = `min(${place}%, calc(100% - ${BAR_PX_MIN}px))`;
      made.style.width = `${width}%`;
      if (one !== line.root) return made;
      return [made, waits.slice(0, MARKS_MAX).map((wait) => {
        const mark = h('span', { class: 'bar waited', title: `waited: ${wait.why}` });
        const begin = Math.min(100, Math.max(0, placeAt(wait.start)));
        mark.style.left = `${begin}%`;
        mark.style.width = `${Math.max(0, Math.min(100, placeAt(wait.end)) - begin)}%`;
        return mark;
      })];
    }

    function fold(item, isOpen) {
      if (isOpen) {
        folded.delete(item.key);
        if (item.span.childRunId) loadChild(item.span.childRunId);
      } else folded.add(item.key);
      touch();
      draw();
    }

    /** A child's events, page by page, and again as long as it goes on. */
    async function loadChild(childId) {
      if (children.has(childId)) return;
      if (children.size >= CHILDREN_MAX) return app.fail(new Error(`${CHILDREN_MAX} child runs are shown already; open this one by its link`));
      const child = { line: createTimeline(childId), timer: null };
      children.set(childId, child);
      const look = async () => {
        try {
          for (let more = true; more && isMounted;) {
            const page = await api.get(`/api/agent/runs/${encodeURIComponent(childId)}?limit=${PAGE_EVENTS}&after=${child.line.lastSeq}`);
            const before = child.line.lastSeq;
            for (const event of page.events) child.line.add(event);
            more = page.next_after !== undefined && child.line.lastSeq > before;
          }
        } catch (error) {
          if (error.status !== 404) app.fail(error);
        }
        touch();
        if (isMounted && !child.line.completed && !isOver) child.timer = setTimeout(look, CHILD_MS);
      };
      await look();
    }

    function select(item) {
      rows.select(item.key);
      shownSide = item;
      fill(detail, spanCard(item, app, {
        close: unselect,
        zoom: item.span.isPoint ? null : () => {
          const { now } = span();
          const from = item.span.start;
          zoom = { from, to: Math.max(from + 1, item.span.end ?? now) };
          touch();
        },
        resume: item.line === line ? resumeFrom : null,
      }));
      if (matchMedia('(max-width: 1000px)').matches) detail.scrollIntoView({ block: 'start' });
    }

    /** Opens the row of an event. */
    function reveal(seq) {
      const item = rowsOf(line, { folded: new Set(), childOf: () => null, wanted: () => true })
        .findLast(({ span: one }) => one.call?.seq === seq || one.result?.seq === seq);
      if (!item) return;
      hasPoints ||= item.span.isPoint;
      points.querySelector('input').checked = hasPoints;
      folded.clear();
      isDirty = true;
      draw();
      rows.reveal(item.key);
      select(item);
    }

    function unselect() {
      shownSide = null;
      fill(detail);
      rows.element.focus();
    }

    function draw() {
      if (!isMounted || !isDirty && (isOver || document.hidden)) return;
      const wasDirty = isDirty;
      isDirty = false;
      const { from, to } = span();
      const seen = visibleSpan();
      waits = waitsOf(line, to);
      placeAt = scaleOf(seen.from, seen.to, hasShortWaits ? waits : []);
      wide.hidden = zoom === null;
      if (wasDirty) {
        rows.set(rowsOf(line, { folded, childOf: (child) => children.get(child)?.line ?? null, wanted: (one) => hasPoints || !one.isPoint }));
        header();
        cards();
        if (shownSide) refreshSide();
      } else rows.redraw();
      const waitMicros = waits.reduce((total, wait) => total + Math.max(0, Math.min(to, wait.end) - wait.start), 0);
      fill(sums, `${format.duration(to - from)} in all, `, h('strong', null, format.duration(Math.max(0, to - from - waitMicros))), ' worked',
        waitMicros > 0 ? [', ', h('span', { class: 'warn' }, `${format.duration(waitMicros)} waited`)] : null, line.cost === null ? null : `, ${format.cost(line.cost)}`,
        ` · ${format.count(line.events)} events`, line.damaged ? h('span', { class: 'bad' }, `, ${line.damaged} damaged lines`) : null,
        line.isFull ? ` · only the first ${format.count(EVENTS_MAX)} are shown` : null);
      scale.classList.toggle('short', hasShortWaits);
      fill(scale, h('span', { class: 'name' }), h('span', { class: 'marks' },
        [0, 0.25, 0.5, 0.75, 1].map((part) => h('span', null, format.duration(seen.from - from + (seen.to - seen.from) * part)))), h('span', { class: 'took' }));
    }

    let cardsVersion = '';
    function cards() {
      const ended = `${line.completed?.seq}/${line.resumptions.length}/${row?.head.seq}`;
      const version = [ended, line.toolCalls, line.modelCalls, line.httpCalls, line.cost].join();
      // While somebody reads there, only an end is worth a change.
      if (version === cardsVersion || about.contains(document.activeElement) && cardsVersion.startsWith(`${ended},`)) return;
      cardsVersion = version;
      const open = new Set([...about.querySelectorAll('details[open] > summary')].map((summary) => summary.textContent));
      about.replaceChildren(...runCards(line, row, app, { record, resume: resumeFrom }));
      for (const made of about.querySelectorAll('details')) if (open.has(made.firstChild.textContent)) made.open = true;
    }

    let sideVersion = '';
    function refreshSide() {
      const one = shownSide.span;
      const version = [shownSide.key, one.end, one.pieces, one.again].join();
      if (version === sideVersion || detail.contains(document.activeElement)) return;
      sideVersion = version;
      select(shownSide);
    }

    let headVersion = '';
    function header() {
      const started = line.started?.payload;
      const end = line.completed?.payload;
      const status = row?.corruption ? 'corrupt' : waitingCount ? 'waiting' : end?.status ?? row?.status ?? 'running';
      if (row && (end || isOver)) record.ended(`${line.completed?.seq}/${line.attempts.length}/${isOver}`, { isWell: end?.status === 'ok', events: row.head.seq });
      const version = [status, started?.skill, end?.code, isOver, record.explanation?.decided].join();
      if (version === headVersion) return;
      headVersion = version;
      const isEnded = ['ok', 'error', 'cancelled'].includes(end?.status);
      fill(head,
        h('div', { class: 'head' },
          h('h1', null, started?.skill ?? row?.skill ?? 'Run'), h('span', { class: `chip ${status}` }, status), copied(id, app, 'the id of the run'),
          h('div', { class: 'actions' },
            end && !['suspended'].includes(end.status) ? null : h('button', { type: 'button', class: 'danger', onclick: cancel }, 'Cancel'),
            end?.status === 'interrupted' || isOver && !end ? h('button', { type: 'button', class: 'primary', onclick: resume }, 'Resume') : null,
            isEnded && started ? h('button', { type: 'button', onclick: again }, 'Run again') : null)),
        h('p', { class: 'dim' },
          started?.parent_run_id ? ['Asked for by ', h('a', { href: `#/runs/${started.parent_run_id}` }, format.short(started.parent_run_id)), '. '] : null,
          started?.resumed_from ? ['Repeats the beginning of ', h('a', { href: `#/runs/${started.resumed_from}` }, format.short(started.resumed_from)), '. '] : null,
          started?.session ? ['The ledger of ', h('a', { href: `#/executions/${started.session.execution_id}` }, 'an execution'), '. '] : null,
          h('a', { href: `#/runs?parent=${id}` }, 'Runs that it asked for')),
        row?.corruption ? h('div', { class: 'note bad' }, `The ledger is damaged: ${row.corruption}`) : null,
        outcomeCard(line, record.explanation, reveal));
    }

    async function act(work) {
      try {
        return await work();
      } catch (error) {
        app.fail(error);
        return null;
      }
    }

    async function cancel() {
      const data = await ask({ title: 'Cancel this run?', body: h('p', null, 'It ends as cancelled, with the runs that it asked for. What it did already stays done.'), yes: 'Cancel the run', isDanger: true });
      if (data && await act(() => api.post(`${path}/cancel`))) app.say('The run is being cancelled');
    }

    const ambiguous = () => h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'retry' }), 'Make calls again that may have had their effect');

    async function resume() {
      const data = await ask({ title: 'Resume this run?', body: [h('p', null, 'It is run again from its beginning, is told what is on record, and goes on where that ends.'), ambiguous()], yes: 'Resume' });
      if (!data) return;
      const done = await act(() => api.post(`${path}/resume`, { retry_ambiguous: data.has('retry') }));
      if (done) {
        app.say('The run goes on');
        watch();
      }
    }

    async function resumeFrom(node) {
      const data = await ask({ title: 'Begin a new run here?', body: [h('p', null, 'A new run repeats this one up to ', h('code', null, node), ' and goes on from there. This one stays as it is.'), ambiguous()], yes: 'Begin it' });
      if (!data) return;
      const done = await act(() => api.post(`${path}/resume`, { from_node: node, retry_ambiguous: data.has('retry') }));
      if (done) app.go(`#/runs/${done.run_id}`);
    }

    async function again() {
      const started = line.started.payload;
      const data = await ask({ title: 'Run it again?', body: h('p', null, 'A new run of the skill begins, with the same input. Nothing of this one is taken over.'), yes: 'Run it again' });
      if (!data) return;
      const done = await act(() => api.post('/api/agent/runs', { skill_name: started.skill, input: started.input ?? {} }));
      if (done) app.go(`#/runs/${done.run_id}`);
    }

    async function summary() {
      try {
        const answer = await api.get(`${path}?limit=1`);
        if (!isMounted) return;
        row = answer.run;
        headVersion = '';
        touch();
      } catch (error) {
        if (isMounted && error.status === 404) fill(root, h('h1', null, 'There is no such run'), h('p', null, h('code', null, id)), h('a', { href: '#/runs' }, 'All runs'));
        else app.fail(error);
        if (error.status === 404) unmount();
      }
    }

    function watch() {
      close();
      isOver = false;
      close = api.stream(`${path}/events`, {
        types: EVENT_TYPES,
        after: line.lastSeq || null,
        on(_type, event) {
          line.add(event);
          if (['run_started', 'run_completed', 'run_resumed'].includes(event.type)) summary();
          if (line.isFull) close();
          touch();
        },
        reset() {
          line = createTimeline(id);
          touch();
        },
        damaged() {
          line.damaged += 1;
          touch();
        },
        end() {
          isOver = true;
          summary();
        },
        // That there is no such run, the summary says.
        fail: (error) => { if (error.status !== 404) app.fail(error); },
      });
    }

    const forget = app.pending.subscribe(({ approvals }) => {
      waitingCount = answers.show(approvals);
      touch();
    });

    function unmount() {
      if (!isMounted) return;
      isMounted = false;
      clearInterval(drawing);
      close();
      forget();
      answers.close();
      for (const child of children.values()) clearTimeout(child.timer);
      rows.clear();
    }

    const drawing = setInterval(draw, DRAW_MS);
    summary();
    watch();
    draw();
    return unmount;
  },
};
