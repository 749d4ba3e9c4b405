// Helpers of all pages: elements, numbers and times as text, requests and dialogs. They show text of
// jobs only through textContent, so that a job's name or log cannot become part of the page.

// Makes an element. `attributes` are set as properties; `children` are elements or texts.
export function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children.filter(child => child !== null && child !== undefined && child !== ''));
  return element;
}

export function drawing(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Replaces the content of an element. Keeps the focus and the scroll positions of tables.
export function fill(container, ...children) {
  const active = container.contains(document.activeElement) ? document.activeElement : null;
  const key = active && (active.getAttribute('href') || active.dataset.key);
  const scrolled = [...container.querySelectorAll('.scroll')].map(one => one.scrollLeft);
  container.replaceChildren(...children.filter(child => child));
  container.querySelectorAll('.scroll').forEach((one, i) => { one.scrollLeft = scrolled[i] || 0; });
  if (!key) return;
  [...container.querySelectorAll('a, button')].find(one =>
    one.getAttribute('href') === key || one.dataset.key === key)?.focus({preventScroll: true});
}

// ---- text ----

export function number(value, digits = 4) {
  if (typeof value !== 'number') return '';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(digits)));
}

export function when(text) {
  if (!text) return '';
  const date = new Date(text), two = value => String(value).padStart(2, '0');
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

export function duration(seconds) {
  if (!(seconds >= 0)) return '';
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}

export function bytes(value) {
  if (typeof value !== 'number') return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${number(value, 3)} ${units[unit]}`;
}

// Returns how long a job has run, or ran.
export function runtime(job) {
  if (!job.started_at) return '';
  const end = job.ended_at ? new Date(job.ended_at) : new Date();
  return duration(Math.max(0, end - new Date(job.started_at)) / 1000);
}

// ---- elements that several pages have ----

// Makes a table. A column has a title, a value() of each row, and a kind, which is its class.
export function table(columns, rows, empty = 'nothing here yet') {
  if (rows.length === 0) return make('p', {className: 'quiet', textContent: empty});
  const head = make('tr', {}, ...columns.map(column =>
    make('th', {textContent: column.title, className: column.kind || '', scope: 'col'})));
  const body = rows.map(row => make('tr', {}, ...columns.map(column => {
    const value = column.value(row);
    const cell = make('td', {className: column.kind || ''}, value instanceof Node ? value : String(value ?? ''));
    cell.dataset.label = column.title;  // narrow windows show it before the value
    return cell;
  })));
  return make('div', {className: 'scroll'},
    make('table', {className: columns.length <= 4 ? 'small' : ''}, make('thead', {}, head), make('tbody', {}, ...body)));
}

export function tile(label, value) {
  return make('div', {className: 'tile'}, make('b', {textContent: value}), make('span', {textContent: label}));
}

export function link(text, href) {
  return make('a', {textContent: text, href});
}

export function state(job) {
  const held = job.held && job.state === 'queued';
  const text = held ? 'held' : job.cancelling ? 'cancelling' : job.state;
  return make('span', {className: `state state-${held ? 'held' : job.state}`, textContent: text});
}

// Makes a bar of `share`, a number from 0 to 1.
export function bar(share, text) {
  const inner = make('i');
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make('div', {className: 'meter'}, make('div', {className: 'bar'}, inner), make('span', {textContent: text}));
}

export function doneShare(job) {
  const told = job.progress;
  return told && told.steps ? Math.min(1, (told.step || 0) / told.steps) : null;
}

export function facts(pairs) {
  return make('dl', {}, ...pairs.filter(([, value]) => value !== '' && value !== null && value !== undefined)
    .map(([name, value]) => make('div', {}, make('dt', {textContent: name}),
      make('dd', {}, value instanceof Node ? value : String(value)))));
}

// Shown instead of a job or a sweep that does not exist.
export function missing(id) {
  return make('div', {}, make('h1', {textContent: `Job ${id} does not exist`}), make('p', {},
    'rolld has never had this job, or has removed it from its ledger. ', link('All jobs', '#/?state=all')));
}

export function section(title, ...children) {
  return make('section', {}, make('h2', {textContent: title}), ...children.filter(child => child));
}

// ---- requests ----

export class Refused extends Error {}

let token = localStorage.getItem('roll-token') || '';

export function hasToken() { return token !== ''; }

export function setToken(text) {
  token = text;
  localStorage.setItem('roll-token', text);
}

// Sends a request and returns the response. Throws Refused if the token is not valid. If the server
// refuses the request, throws an Error with the server's sentence, status, answer and wait.
export async function send(path, options = {}) {
  const response = await fetch('/api/v1/' + path, {
    ...options, cache: 'no-store', headers: {Authorization: 'Bearer ' + token, 'X-Roll-Action': '1'},
  });
  if (response.status === 401) throw new Refused('the server refuses the token');
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const error = body?.error;
  const sentence = error ? error.message + (error.hint ? ` (${error.hint})` : '') : `status ${response.status}`;
  const wait = Number(response.headers.get('Retry-After')) || 0;  // seconds
  throw Object.assign(new Error(sentence), {status: response.status, answer: body, wait});
}

export async function get(path) {
  return (await send(path)).json();
}

export async function post(path, args) {
  return (await send(path, {method: 'POST', body: JSON.stringify(args)})).json();
}

// ---- dialogs ----

// Shows a dialog with buttons. If the person agrees, returns the text of the input, or true if the
// dialog has no input. Otherwise returns null.
export function ask(question, {detail = '', agree = 'Yes', decline = 'No', input = null, danger = false} = {}) {
  return new Promise(resolve => {
    const field = input === null ? null : make('input', {value: input.value, type: input.type || 'text',
      ariaLabel: input.label, size: 24});
    const no = decline && make('button', {type: 'button', textContent: decline, value: 'no'});
    const yes = make('button', {textContent: agree, value: 'yes', className: danger ? 'danger' : 'primary'});
    const form = make('form', {method: 'dialog'}, make('p', {className: 'question', textContent: question}),
      detail && make('p', {className: 'quiet', textContent: detail}),
      field && make('label', {}, input.label, field), make('div', {className: 'buttons'}, no, yes));
    const dialog = make('dialog', {}, form);
    let agreed = false;
    form.addEventListener('submit', event => { event.preventDefault(); agreed = true; dialog.close(); });
    if (no) no.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(agreed ? (field ? field.value : true) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    (field || no || yes).focus();
  });
}

export function tell(text) {
  return ask(text, {agree: 'Close', decline: ''});
}
