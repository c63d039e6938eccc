// The nights of a cell, unpacked from the page's data and drawn when its table comes near the view.
const data = JSON.parse(document.getElementById('data').textContent);
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// An element with attributes; text is always text, never markup.
function make(tag, attributes = {}, text = '') {
  const svg = ['svg', 'path', 'circle', 'title', 'text'].includes(tag);
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

// {unit, points: [[night, value], ...], bands: [[from night, low, high], ...]}; null: no night has a figure
function nightsOf(id) {
  const packed = data.cells[id.slice(1) - 1];
  if (!packed) return null;
  const [first, least, most, marks, bands, unit] = packed;
  const points = [];
  for (let at = 0; at < marks.length; at += 3) {
    const step = parseInt(marks.slice(at, at + 3), 16);
    if (marks[at] !== '.') points.push([first + at / 3, least + (most - least) * step / 4095]);
  }
  return {unit, points, bands};
}

// The values' own range, and of a far wider band only as much again: the line must not become flat.
function range({points, bands}) {
  const values = points.map(point => point[1]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low) || Math.abs(high) * .02 || 1;
  const bounds = bands.flatMap(band => band.slice(1)).filter(bound => bound !== null);
  [low, high] = [Math.max(low - room, Math.min(low, ...bounds)), Math.min(high + room, Math.max(high, ...bounds))];
  return low < high ? [low, high] : [low - room, high + room];
}

// The band and the line over it; `place` says where a night and a value are.
function picture(nights, width, height, pad) {
  const [low, high] = range(nights), last = data.nights.length - 1;
  const x = night => pad + (width - 2 * pad) * (last ? night / last : .5);
  const y = value => pad + (height - 2 * pad) * (high - Math.min(high, Math.max(low, value))) / (high - low);
  const svg = make('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'});
  nights.bands.forEach(([night, least, most], at) => {
    if (least === null && most === null) return;
    const next = nights.bands[at + 1], end = next ? x(next[0]) : width;
    const top = most === null || most > high ? 0 : y(most), bottom = least === null || least < low ? height : y(least);
    svg.append(make('path', {class: 'band', d: `M${at ? x(night) : 0} ${top}H${end}V${bottom}H${at ? x(night) : 0}Z`}));
  });
  const line = nights.points.map(([night, value]) => `${x(night).toFixed(1)} ${y(value).toFixed(1)}`).join('L');
  svg.append(make('path', {class: 'line', d: 'M' + line}));
  const [night, value] = nights.points.at(-1);
  if (night === last) svg.append(make('circle', {cx: x(night), cy: y(value), r: 2.5}));
  return {svg, x, y, low, high};
}

const figure = value => String(Number(value.toPrecision(4)));

// What a picture of so many nights says, for those who do not see it.
function told(nights) {
  const values = nights.points.map(point => point[1]);
  return `${values.length} nights, ${figure(Math.min(...values))} to ${figure(Math.max(...values))} ${nights.unit}`;
}

function spark(row) {
  const cell = find('.h', row), nights = cell && !cell.firstChild && nightsOf(row.id);
  if (!nights) return;
  const button = make('button', {type: 'button', 'aria-expanded': 'false', title: told(nights)});
  button.append(picture(nights, 130, 24, 3).svg);
  button.setAttribute('aria-label', `History: ${told(nights)}`);
  cell.append(button);
}

// A line of what changed, or is not ok: the nights of the cell that it names.
function beside(line) {
  const nights = !find('.h', line) && nightsOf(find('a', line).hash.slice(1));
  if (!nights) return;
  const place = make('span', {class: 'h', title: told(nights)});
  place.append(picture(nights, 130, 20, 3).svg);
  find('a', line).after(place);
}

const draw = box => (box.matches('.scroll') ? all('tr[id]', box).forEach(spark) : all('.told li', box).forEach(beside));
const near = new IntersectionObserver(seen => {
  for (const {isIntersecting, target} of seen) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    if (data.nights.length > 1) draw(target);
  }
}, {rootMargin: '300px'});
const boxes = all('#all .scroll, article');
boxes.forEach(box => near.observe(box));

addEventListener('beforeprint', () => {
  if (data.nights.length > 1) boxes.filter(box => !box.hidden).forEach(draw);
});
