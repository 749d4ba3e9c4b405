// Drawings: curves over steps, and the schedule of a pipeline.
import {drawing, make, number} from './base.js';

const WIDTH = 460, HEIGHT = 180, LEFT = 54, RIGHT = 10, TOP = 10, BOTTOM = 24;

// Returns round numbers between `low` and `high`.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map(one => one * power).find(one => one >= rough) || rough;
  const all = [];
  for (let at = Math.ceil(low / unit - 1e-9) * unit; at <= high + unit * 1e-9 && all.length < 20; at += unit)
    all.push(Math.abs(at) < unit * 1e-9 ? 0 : at);
  return all;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${number(value / 1e6, 3)}M`;
  if (size >= 1e4) return `${number(value / 1e3, 3)}k`;
  return size > 0 && size < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
}

function text(content, attributes) {
  const element = drawing('text', attributes);
  element.textContent = content;
  return element;
}

function hover(svg, points, x, y, label, axis) {
  const line = drawing('line', {class: 'cursor', y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden'});
  const dot = drawing('circle', {class: 'dot', r: 3.5, visibility: 'hidden'});
  svg.append(line, dot);
  const before = label.textContent;
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * WIDTH;
    let near = points[0];
    for (const point of points) if (Math.abs(x(point[0]) - at) < Math.abs(x(near[0]) - at)) near = point;
    for (const name of ['x1', 'x2']) line.setAttribute(name, x(near[0]));
    dot.setAttribute('cx', x(near[0]));
    dot.setAttribute('cy', y(near[1]));
    for (const one of [line, dot]) one.setAttribute('visibility', 'visible');
    label.textContent = `${axis} ${number(near[0])}: ${number(near[1])}`;
  });
  svg.addEventListener('pointerleave', () => {
    for (const one of [line, dot]) one.setAttribute('visibility', 'hidden');
    label.textContent = before;
  });
}

// Returns the running mean of the points over about a twentieth of the curve.
function smoothed(points) {
  const weight = Math.min(1, 20 / points.length);
  let mean = points[0][1];
  return points.map(([x, y]) => [x, mean += weight * (y - mean)]);
}

// Draws one curve. `points` are pairs [x, y] in the order of x; `axis` is the name of x. A
// noisy curve also has its running mean. The value of the point `told` is shown next to the title.
export function chart(title, points, axis = 'step', noisy = false, told = points.at(-1)) {
  const label = make('b', {textContent: number(told[1])});
  const figure = make('figure', {}, make('figcaption', {}, make('span', {textContent: title}), label));
  const svg = drawing('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img',
    'aria-label': `${title}: ${number(told[1])} at ${axis} ${number(told[0])}`});
  const xs = points.map(point => point[0]), ys = points.map(point => point[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs);
  let y0 = Math.min(...ys), y1 = Math.max(...ys);
  if (y0 === y1) [y0, y1] = [y0 - Math.abs(y0) * .05 - 1e-9, y1 + Math.abs(y1) * .05 + 1e-9];
  const x = value => LEFT + (WIDTH - LEFT - RIGHT) * (x1 === x0 ? .5 : (value - x0) / (x1 - x0));
  const y = value => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - y0) / (y1 - y0);
  for (const at of ticks(y0, y1, 4))
    svg.append(drawing('line', {class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at)}),
      text(short(at), {x: LEFT - 6, y: y(at) + 4, 'text-anchor': 'end'}));
  for (const at of ticks(x0, x1, 4).filter(at => axis !== 'step' || Number.isInteger(at)))
    svg.append(text(short(at), {x: x(at), y: HEIGHT - 7, 'text-anchor': x(at) > WIDTH - 30 ? 'end' : 'middle'}));
  svg.append(drawing('line', {class: 'axis', x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM}));
  if (points.length === 1)
    svg.append(drawing('circle', {class: 'dot', r: 3.5, cx: x(xs[0]), cy: y(ys[0])}));
  else {
    const line = (of, name) => drawing('polyline', {class: name,
      points: of.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ')});
    const averages = noisy && points.length > 60;
    svg.append(line(points, averages ? 'raw' : 'curve'));
    if (averages) svg.append(line(smoothed(points), 'curve'));
  }
  hover(svg, points, x, y, label, axis);
  figure.append(svg);
  return figure;
}

// Draws the schedule of a pipeline: one row for each rank, one box for each operation. `ranks` has
// for each rank a list of [name, start, end]; the name begins with F, B or W.
export function schedule(ranks, makespan) {
  const row = 26, left = 58, unit = Math.max(10, Math.min(34, 1400 / makespan)), width = left + makespan * unit + 4;
  const svg = drawing('svg', {class: 'schedule', viewBox: `0 0 ${width} ${ranks.length * row + 4}`, width,
    height: ranks.length * row + 4, role: 'img', 'aria-label': 'schedule of the pipeline'});
  ranks.forEach((operations, rank) => {
    svg.append(text(`stage ${rank}`, {x: 0, y: rank * row + 17}));
    for (const [name, start, end] of operations) {
      if (end <= start) continue;
      svg.append(drawing('rect', {class: `op-${name[0]}`, x: left + start * unit, y: rank * row + 2,
        width: Math.max(1, (end - start) * unit - 1), height: row - 4, rx: 3}));
      if ((end - start) * unit > 9 * name.length)
        svg.append(text(name, {class: 'op', x: left + (start + end) / 2 * unit, y: rank * row + 17, 'text-anchor': 'middle'}));
    }
  });
  return make('div', {className: 'scroll', tabIndex: 0, ariaLabel: 'Schedule'}, svg);
}
