// Filters and keys of the table of figures; nothing is kept.
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = find('#filter');
let known = null, texts = null;       // the rows, and what the text filter looks through: made when first used

const rows = () => known ??= all('#all tr[id]');

const words = () => all('[aria-pressed=true]', form).map(button => button.value);

function textOf(row, at) {
  texts ??= rows().map(each => {
    const place = each.closest('.sub').dataset.name, head = find('.case', each.parentElement).textContent;
    return `${place} ${head} ${each.textContent}`.toLowerCase();
  });
  return texts[at];
}

function filter() {
  const chosen = words(), wanted = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const {subsystem, partition} = form;
  let shown = 0;
  rows().forEach((row, at) => {
    const fits = (!chosen.length || chosen.includes(row.className))
      && (!subsystem.value || row.closest('.sub').dataset.name === subsystem.value)
      && (!partition.value || row.parentElement.dataset.p === partition.value)
      && wanted.every(word => textOf(row, at).includes(word));
    row.hidden = !fits;
    shown += fits;
  });
  const emptied = (outer, inner) => all(outer).forEach(box => { box.hidden = !find(inner, box); });
  emptied('#all tbody', 'tr[id]:not([hidden])');
  emptied('#all .scroll', 'tbody:not([hidden])');
  emptied('#all .sub', '.scroll:not([hidden])');
  find('#none').hidden = shown > 0;
  find('output', form).textContent = shown === rows().length ? `${shown} cells` : `${shown} of ${rows().length} cells`;
}

function choose(word, only) {
  for (const button of all('[aria-pressed]', form)) {
    const pressed = button.getAttribute('aria-pressed') === 'true';
    if (only || button.value === word)
      button.setAttribute('aria-pressed', String(button.value === word && (only || !pressed)));
  }
  filter();
}

// j and k: the row after, or before, the one that has the focus or is the first in view.
function step(by) {
  const shown = rows().filter(row => !row.hidden && !row.closest('[hidden]'));
  if (!shown.length) return;
  const own = document.activeElement?.closest('#all tr[id]');
  const seen = shown.findIndex(row => row.getBoundingClientRect().bottom > form.offsetHeight);
  const at = own ? shown.indexOf(own) + by : Math.max(seen, 0);
  const row = shown[Math.min(Math.max(at, 0), shown.length - 1)];
  row.tabIndex = -1;
  row.focus({preventScroll: true});
  row.scrollIntoView({block: 'nearest'});
}

function key(event) {
  const row = document.activeElement?.matches('#all tr[id]') ? document.activeElement : null;
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches('input, select, textarea')) {
    if (event.key === 'Escape') { form.text.value = ''; filter(); event.target.blur(); }
    else if (event.key === 'Enter') { event.preventDefault(); event.target.blur(); step(0); }
    return;
  }
  if ('/jk'.includes(event.key)) find('#all').open = true;
  if (event.key === '/') form.text.focus();
  else if (event.key === 'j' || (row && event.key === 'ArrowDown')) step(1);
  else if (event.key === 'k' || (row && event.key === 'ArrowUp')) step(-1);
  else if (row && event.key === 'Enter') find('a', row)?.click();
  else if (event.key === 'Escape') { form.reset(); choose('', true); }
  else return;
  event.preventDefault();
}

document.documentElement.className = 'js';
if (form) {
  form.hidden = false;
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(() => choose('', true)));
  form.addEventListener('input', filter);
  form.addEventListener('click', event => {
    const button = event.target.closest('[aria-pressed]');
    if (button) choose(button.value, false);
  });
  all('.counts a').forEach(link => link.addEventListener('click', () => choose(link.className.slice(2), true)));
  document.addEventListener('keydown', key);
}

// A link to a folded part opens it.
function unfold() {
  for (let part = document.getElementById(location.hash.slice(1)); part; part = part.parentElement)
    if (part.matches('details')) part.open = true;
}
addEventListener('hashchange', unfold);
document.addEventListener('click', event => {
  if (event.target.closest('a[href^="#"]')) setTimeout(unfold);
});
unfold();
