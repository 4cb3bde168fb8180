// Lines over time, small and without a library.

// In the units of the drawing, which is stretched to the room there is.
const WIDTH = 320;
const HEIGHT = 96;
const PAD = 4;

/**
 * A chart of one or more lines over the same times.
 * @param {object} app what a view is given
 * @param {string} title
 * @param {(value: number | null) => string} spell a value as a person reads it
 * @param {{name: string, values: (number | null)[]}[]} lines each value belongs to the look of the same number
 * @param {number} room how many looks the width is for
 */
export function chart({ h }, title, spell, lines, room) {
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const top = Math.max(...known, 0);
  const x = (at, length) => WIDTH - PAD - ((length - 1 - at) * (WIDTH - 2 * PAD)) / Math.max(room - 1, 1);
  const y = (value) => HEIGHT - PAD - (top === 0 ? 0 : (value / top) * (HEIGHT - 2 * PAD));
  const drawn = lines.flatMap(({ values }, number) => stretches(values).map((stretch) => {
    const points = stretch.map(({ at, value }) => `${x(at, values.length).toFixed(1)},${y(value).toFixed(1)}`);
    // A look between two without a value would not be seen as a line.
    if (points.length === 1) points.push(points[0]);
    return h('polyline', { class: `line line-${number}`, points: points.join(' '), fill: 'none' });
  }));
  const newest = lines.map(({ name, values }, number) => h('li', { class: `legend legend-${number}` },
    h('span', { class: 'legend-name' }, name), ' ', h('span', { class: 'legend-value' }, spell(values.at(-1) ?? null))));
  return h('figure', { class: 'chart' },
    h('figcaption', {}, title, h('span', { class: 'dim' }, ` up to ${spell(known.length === 0 ? null : top)}`)),
    // The figures beside it say the same to whoever cannot see it.
    h('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, 'aria-hidden': 'true', preserveAspectRatio: 'none' },
      h('line', { class: 'axis', x1: PAD, x2: WIDTH - PAD, y1: HEIGHT - PAD, y2: HEIGHT - PAD }), drawn),
    h('ul', { class: 'legends' }, newest));
}

function stretches(values) {
  const found = [];
  values.forEach((value, at) => {
    if (value === null) return;
    const last = found.at(-1);
    if (last?.at(-1).at === at - 1) last.push({ at, value });
    else found.push([{ at, value }]);
  });
  return found;
}
