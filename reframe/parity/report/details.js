// A row that is opened: its nights at full size, the whole reason, what is left of the run.
const more = row => row.nextElementSibling?.className === 'more' ? row.nextElementSibling : null;

function toggle(row) {
  const open = more(row);
  if (open) open.remove();
  else row.after(opened(row));
  find('.h button', row)?.setAttribute('aria-expanded', String(!open));
}

function opened(row) {
  const line = make('tr', {class: 'more'}), cell = make('td', {colspan: row.cells.length});
  line.append(cell);
  const nights = nightsOf(row.id), head = find('.case', row.parentElement);
  const space = Math.min(row.closest('.scroll').clientWidth - 24, 760);
  if (nights) cell.append(chart(nights, Math.max(space, 240)));
  const reason = data.reasons[row.id.slice(1)];
  if (reason) cell.append(make('p', {class: 'reason'}, reason));
  const place = find('small', head).firstChild.data.split(' · ')[0];
  const name = `${head.firstChild.firstChild.data}.${row.cells[0].firstChild.data}@${place}`.replace(/\s/g, '');
  cell.append(make('p', {}, 'next: '));
  cell.lastChild.append(make('code', {}, `parity show '${name.replaceAll("'", "'\\''")}'`));
  const facts = make('p', {class: 'soft'});
  facts.append(...[...find('small', head).childNodes].map(node => node.cloneNode(true)), ' · ',
    make('a', {href: '#' + row.id}, 'link to this row'));
  cell.append(facts);
  return line;
}

function chart(nights, width) {
  const box = make('div', {class: 'chart'}), {svg, x, y, low, high} = picture(nights, width, 150, 12);
  const said = make('p', {class: 'fig'}), values = nights.points.map(point => point[1]);
  const summary = `${values.length} nights from ${data.nights[nights.points[0][0]][0]}: lowest ${figure(Math.min(...values))}, ` +
    `highest ${figure(Math.max(...values))}, last ${figure(values.at(-1))} ${nights.unit}`;
  said.textContent = summary;
  for (const [night, value] of nights.points) svg.append(make('circle', {cx: x(night), cy: y(value), r: 2}));
  for (const bound of nights.bands.at(-1)?.slice(1) ?? []) {
    if (bound !== null && low <= bound && bound <= high)
      svg.append(make('text', {x: 2, y: y(bound) - 2}, figure(bound)));
  }
  // the night under the pointer, or the finger, is told below
  svg.addEventListener('pointermove', event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const nearest = nights.points.reduce((a, b) => Math.abs(x(b[0]) - at) < Math.abs(x(a[0]) - at) ? b : a);
    said.textContent = `${data.nights[nearest[0]].join(', session ')}: ${figure(nearest[1])} ${nights.unit}`;
  });
  svg.addEventListener('pointerleave', () => { said.textContent = summary; });
  box.append(svg, said);
  return box;
}

