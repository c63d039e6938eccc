// The history of a figure: what is under the pointer is told, a dragged range, the wheel with Ctrl, or a key enlarges it.
const nights = JSON.parse(document.getElementById('nights').textContent);

// The points of a path that begins at one and goes on by steps.
function pointsOf(path) {
  const [x, y, ...steps] = path.getAttribute('d').match(/-?\d+/g).map(Number), points = [[x, y]];
  for (let n = 0; n < steps.length; n += 2) {
    const [left, up] = points.at(-1);
    if (steps[n]) points.push([left + steps[n], up + steps[n + 1]]);
  }
  return points;
}

function zoomable(plot) {
  const svg = plot.querySelector('svg'), points = pointsOf(svg.querySelector('.line'));
  const [left, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const {low, high, unit} = plot.dataset, said = plot.parentElement.querySelector('figcaption');
  const summary = said.textContent, part = name => plot.querySelector('.' + name);
  const edges = ['top', 'bottom'].map(name => part(name).textContent);
  let from = left, to = left + width, top = 0, tall = height, held = null;
  const value = y => Number(high) - (Number(high) - Number(low)) * y / height;
  const told = y => `${Number(value(y).toPrecision(4))} ${unit}`;
  const nightAt = event => {
    const box = svg.getBoundingClientRect();
    return from + (to - from) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };

  function show(first, last) {
    const span = Math.min(width, Math.max(4, last - first));
    from = Math.min(Math.max(left, first), left + width - span);
    to = from + span;
    const seen = points.filter(([x]) => from <= x && x <= to).map(point => point[1]), whole = span === width;
    const room = seen.length && !whole ? Math.max(20, (Math.max(...seen) - Math.min(...seen)) * .2) : 0;
    top = room ? Math.min(...seen) - room : 0;
    tall = room ? Math.max(...seen) + room - top : height;
    svg.toggleAttribute('data-zoomed', !whole);
    svg.setAttribute('viewBox', `${from} ${top} ${to - from} ${tall}`);
    part('top').textContent = whole ? edges[0] : told(top);
    part('bottom').textContent = whole ? edges[1] : told(top + tall);
    part('since').textContent = nights[Math.max(0, Math.ceil(from))][0].slice(0, 10);
    part('until').textContent = nights[Math.min(Math.floor(to), nights.length - 1)][0].slice(0, 10);
  }

  const scale = (factor, about = (from + to) / 2) => show(about - (about - from) * factor, about + (to - about) * factor);
  svg.addEventListener('pointerdown', event => { held = nightAt(event); });
  addEventListener('pointerup', event => {
    if (held === null) return;
    const ends = [held, nightAt(event)].sort((a, b) => a - b);
    held = null;
    if (ends[1] - ends[0] > (to - from) / 50) show(...ends);
  });
  svg.addEventListener('dblclick', () => show(left, left + width));
  svg.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scale(event.deltaY < 0 ? .7 : 1 / .7, nightAt(event));
  }, {passive: false});
  svg.addEventListener('pointermove', event => {
    const at = nightAt(event), [x, y] = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    said.textContent = `${nights[x][0]}, session ${nights[x][1]}: ${told(y)}`;
  });
  svg.addEventListener('pointerleave', () => { said.textContent = summary; });
  plot.tabIndex = 0;
  plot.addEventListener('keydown', event => {
    const by = (to - from) / 4;
    const act = {'+': () => scale(.7), '=': () => scale(.7), '-': () => scale(1 / .7), '0': () => show(left, left + width),
      ArrowLeft: () => show(from - by, to - by), ArrowRight: () => show(from + by, to + by)}[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    act();
    event.preventDefault();
  });
}

document.documentElement.className = 'js';
document.querySelectorAll('.plot').forEach(zoomable);
