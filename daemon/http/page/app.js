// The dashboard. It shows text of jobs only through textContent, so that a job's name or log cannot
// become part of the page.
'use strict';

const POLL_MS = 2000;
const main = document.getElementById('main');
const status = document.getElementById('status');
let token = localStorage.getItem('roll-token') || '';
let view = null;     // {path, update}: the page that is shown
let timer = 0;

// ---- small helpers ----

// Makes an element. `attributes` are set as properties; `children` are elements or texts.
function make(tag, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children.filter(child => child !== null));
  return element;
}

function drawing(tag, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function say(text, bad = false) {
  status.textContent = text;
  status.classList.toggle('bad', bad);
}

function number(value, digits = 4) {
  if (typeof value !== 'number') return '';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(digits)));
}

function when(text) {
  return text ? new Date(text).toLocaleString() : '';
}

function duration(seconds) {
  if (!(seconds >= 0)) return '';
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}

// Returns how long a job has run, or ran.
function runtime(job) {
  if (!job.started_at) return '';
  const end = job.ended_at ? new Date(job.ended_at) : new Date();
  return duration((end - new Date(job.started_at)) / 1000);
}

class Refused extends Error {}

async function request(path, options = {}) {
  const response = await fetch('/api/v1/' + path, {
    ...options, cache: 'no-store', headers: {Authorization: 'Bearer ' + token},
  });
  if (response.status === 401) throw new Refused('the server refuses the token');
  const body = await response.json();
  if (!response.ok) throw new Error(body.error.message);
  return body;
}

function table(columns, rows) {
  const head = make('tr', {}, ...columns.map(column =>
    make('th', {textContent: column.title, className: column.kind || '', scope: 'col'})));
  const body = rows.map(row => make('tr', {}, ...columns.map(column => {
    const value = column.value(row);
    return make('td', {className: column.kind || ''}, value instanceof Node ? value : String(value ?? ''));
  })));
  return make('div', {className: 'scroll'}, make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)));
}

function tile(label, value) {
  return make('div', {className: 'tile'}, make('b', {textContent: value}), make('span', {textContent: label}));
}

function state(job) {
  const text = job.held && job.state === 'queued' ? 'held' : job.cancelling ? 'cancelling' : job.state;
  return make('span', {className: 'state-' + job.state, textContent: text});
}

function link(text, href) {
  return make('a', {textContent: text, href});
}

function progress(job) {
  const told = job.progress;
  if (told && told.step && told.steps) return `${Math.floor(100 * told.step / told.steps)} %`;
  return '';
}

// ---- pages ----

const JOB_COLUMNS = [
  {title: 'Job', kind: 'number', value: job => link(String(job.id), '#/job/' + job.id)},
  {title: 'Name', kind: 'name', value: job => link(job.name, '#/job/' + job.id)},
  {title: 'User', value: job => job.user},
  {title: 'Kind', value: job => job.kind},
  {title: 'State', value: state},
  {title: 'Done', kind: 'number', value: progress},
  {title: 'Runtime', kind: 'number', value: runtime},
  {title: 'Nodes or reason', kind: 'wide quiet', value: job => job.reason || job.waiting || job.nodes.join(' ')},
];

function jobsPage() {
  const tiles = make('div', {className: 'tiles'});
  const list = make('div');
  const more = make('p', {className: 'quiet'});
  const choose = make('select', {ariaLabel: 'State'}, ...['open', 'running', 'queued', 'failed', 'done', 'cancelled', 'all']
    .map(name => make('option', {textContent: name, value: name})));
  const user = make('input', {placeholder: 'user', ariaLabel: 'User', size: 12});
  const name = make('input', {placeholder: 'name or number, * allowed', ariaLabel: 'Selector', size: 24});
  main.replaceChildren(make('h1', {textContent: 'Jobs'}), tiles,
    make('div', {className: 'filters'}, choose, user, name), list, more);

  async function update() {
    const query = new URLSearchParams({limit: '200'});
    if (choose.value === 'all') query.set('all', '1');
    else if (choose.value !== 'open') query.set('state', choose.value);
    if (user.value) query.set('user', user.value);
    if (name.value) query.set('selector', name.value);
    const [totals, reply] = await Promise.all([request('totals'), request('jobs?' + query)]);
    const jobs = totals.jobs, room = totals.capacity;
    tiles.replaceChildren(
      tile('running', number(jobs.running)), tile('queued', number(jobs.queued)),
      tile('failed', number(jobs.failed)), tile('nodes', number(room.nodes)),
      tile('slots in use', `${number(room.slots - room.slots_free)} / ${number(room.slots)}`),
      tile('GPUs in use', `${number(room.gpus - room.gpus_free)} / ${number(room.gpus)}`),
      tile('longest wait', duration(totals.longest_wait_seconds)));
    list.replaceChildren(table(JOB_COLUMNS, reply.jobs));
    more.textContent = reply.next ? 'Only the first 200 jobs are shown; choose a state, a user or a name.' :
      reply.jobs.length === 0 ? 'No job matches.' : '';
  }
  for (const input of [choose, user, name]) input.addEventListener('change', refresh);
  return update;
}

// Draws one curve over the steps. `points` are pairs [step, value].
function chart(title, points) {
  const width = 420, height = 160, left = 48, bottom = 18;
  const last = points.at(-1);
  const caption = make('figcaption', {}, make('span', {textContent: title}),
    make('span', {textContent: last ? number(last[1]) : 'no value yet'}));
  const svg = drawing('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title});
  if (points.length > 1) {
    const xs = points.map(point => point[0]), ys = points.map(point => point[1]);
    const x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
    const x = value => left + (width - left - 6) * (value - x0) / (x1 - x0 || 1);
    const y = value => height - bottom - (height - bottom - 8) * (value - y0) / (y1 - y0 || 1);
    svg.append(drawing('line', {class: 'axis', x1: left, x2: width, y1: height - bottom, y2: height - bottom}),
      drawing('polyline', {class: 'curve', points: points.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ')}));
    const label = (text, at) => {
      const element = drawing('text', at);
      element.textContent = text;
      svg.append(element);
    };
    label(number(y1, 3), {x: 2, y: 14});
    label(number(y0, 3), {x: 2, y: height - bottom});
    label('step ' + number(x0), {x: left, y: height - 4});
    label(number(x1), {x: width - 6, y: height - 4, 'text-anchor': 'end'});
  }
  return make('figure', {}, caption, svg);
}

const CURVES = [
  ['loss', 'Loss'], ['valid_loss', 'Validation loss'], ['tokens_per_second', 'Tokens per second'],
  ['grad_norm', 'Gradient norm'], ['lr', 'Learning rate'], ['mfu', 'MFU'], ['memory_bytes', 'Memory (GiB)'],
  ['wall_s', 'Time of a step (s)'],
];

function charts(rows) {
  return CURVES.map(([key, title]) => [title, rows.filter(row => typeof row[key] === 'number' && typeof row.step === 'number')
    .map(row => [row.step, key === 'memory_bytes' ? row[key] / 2 ** 30 : row[key]])]).filter(([, points]) => points.length > 0)
    .map(([title, points]) => chart(title, points));
}

function facts(pairs) {
  return make('dl', {}, ...pairs.filter(([, value]) => value !== '' && value !== null && value !== undefined)
    .flatMap(([name, value]) => [make('dt', {textContent: name}), make('dd', {}, value instanceof Node ? value : String(value))]));
}

async function change(id, verb) {
  if (verb === 'cancel' && !confirm(`Cancel job ${id}?`)) return;
  try {
    await request(`jobs/${id}/${verb}`, {method: 'POST'});
  } catch (error) {
    alert(error.message);
  }
  refresh();
}

function jobPage(id) {
  const head = make('div'), drawings = make('div', {className: 'charts'}), tables = make('div');
  const rank = make('input', {type: 'number', min: 0, value: 0, ariaLabel: 'Rank'});
  const log = make('pre', {tabIndex: 0, ariaLabel: 'Log'});
  main.replaceChildren(head, drawings, tables,
    make('h2', {}, 'Log of rank ', rank), log);
  const read = {key: '', next: null};

  async function follow(job) {
    const key = `${job.attempt} ${rank.value}`;
    if (read.key !== key) {
      Object.assign(read, {key, next: null});
      log.textContent = '';
    }
    const query = new URLSearchParams({rank: rank.value || '0'});
    if (read.next !== null) query.set('from', read.next);
    try {
      const part = await request(`jobs/${id}/log?${query}`);
      if (read.next !== null && part.from !== read.next) log.textContent = '';
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      if (part.text) log.append(part.text);
      read.next = part.next;
      if (atEnd) log.scrollTop = log.scrollHeight;
    } catch (error) {
      if (error instanceof Refused) throw error;
      if (read.next === null) log.textContent = 'no log yet';
    }
  }

  async function update() {
    const {job} = await request('jobs/' + id);
    const open = job.state === 'queued' || job.state === 'running';
    const verbs = !open ? [] : ['cancel', ...(job.state === 'queued' ? [job.held ? 'release' : 'hold'] : []),
      ...(job.state === 'running' && job.kind !== 'command' ? ['checkpoint'] : [])];
    head.replaceChildren(make('h1', {textContent: `Job ${job.id}: ${job.name}`}),
      facts([['State', state(job)], ['Reason', job.reason], ['Waiting', job.waiting],
        ...job.holds.map(hold => ['Remedy', hold.remedy]),
        ['User', job.user], ['Kind', job.kind], ['Nodes', job.nodes.join(' ')], ['Submitted', when(job.submitted_at)],
        ['Started', when(job.started_at)], ['Runtime', runtime(job)], ['Exit code', job.exit_code],
        ['Progress', job.progress && job.progress.steps ? `step ${number(job.progress.step)} of ${number(job.progress.steps)}` : ''],
        ['Output', job.output], ['Exported to', job.exported],
        ['Export', job.export_job ? link('job ' + job.export_job, '#/job/' + job.export_job) : '']]),
      make('form', {}, ...verbs.map(verb => make('button', {type: 'button', textContent: verb, onclick: () => change(id, verb)}))));
    tables.replaceChildren(make('h2', {textContent: 'Attempts'}), table([
      {title: 'Attempt', value: attempt => attempt.token}, {title: 'State', value: attempt => attempt.outcome || attempt.state},
      {title: 'Nodes', kind: 'wide', value: attempt => attempt.nodes.join(' ')},
      {title: 'CPU (s)', kind: 'number', value: attempt => attempt.usage ? number(attempt.usage.cpu_seconds) : ''},
      {title: 'Memory (GiB)', kind: 'number', value: attempt => attempt.usage ? number(attempt.usage.memory_peak / 2 ** 30) : ''},
      {title: 'Started', value: attempt => when(attempt.started_at)}, {title: 'Ended', value: attempt => when(attempt.ended_at)},
      {title: 'Reason', kind: 'wide quiet', value: attempt => attempt.reason}], job.attempts));
    if (job.checkpoints.length > 0)
      tables.append(make('h2', {textContent: 'Checkpoints'}), table([
        {title: 'Step', kind: 'number', value: checkpoint => number(checkpoint.step)},
        {title: 'Directory', kind: 'wide', value: checkpoint => checkpoint.path || checkpoint.directory || ''}], job.checkpoints.slice(-10)));
    if (job.kind === 'train' || job.kind === 'resume') {
      const {rows} = await request(`jobs/${id}/metrics?points=1000`);
      drawings.replaceChildren(...charts(rows));
    }
    await follow(job);
  }
  rank.addEventListener('change', refresh);
  return update;
}

function nodesPage() {
  const list = make('div'), notes = make('p', {className: 'message'});
  main.replaceChildren(make('h1', {textContent: 'Nodes'}), notes, list);
  return async () => {
    const reply = await request('nodes');
    notes.textContent = reply.stopped ? 'No job is started: ' + reply.stopped : '';
    list.replaceChildren(table([
      {title: 'Node', value: node => node.node},
      {title: 'State', value: node => node.excluded ? 'excluded' : node.silent ? 'silent' : node.draining ? 'draining' : 'ready'},
      {title: 'Slots free', kind: 'number', value: node => `${node.slots_free} / ${node.slots}`},
      {title: 'GPUs free', kind: 'number', value: node => `${node.gpus_free} / ${node.gpus}`},
      {title: 'Memory free', kind: 'number', value: node => node.memory ? `${number(node.memory_free / 2 ** 30)} / ${number(node.memory / 2 ** 30)} GiB` : ''},
      {title: 'Wall', value: node => node.wall},
      {title: 'Heard', kind: 'number', value: node => node.heard_ms_ago === null ? '' : `${number(node.heard_ms_ago)} ms ago`},
      {title: 'Jobs', kind: 'wide', value: node => make('span', {}, ...node.jobs.slice(0, 20).flatMap(id => [link(String(id), '#/job/' + id), ' ']))},
    ], reply.nodes));
  };
}

function allocationsPage() {
  const list = make('div');
  main.replaceChildren(make('h1', {textContent: 'Slurm allocations'}), list);
  return async () => {
    const reply = await request('allocations');
    const shown = value => typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
    const columns = rows => rows.length === 0 ? [] : Object.keys(rows[0]).map(key =>
      ({title: key, kind: 'wide', value: row => shown(row[key])}));
    list.replaceChildren(
      make('p', {className: 'message', textContent: reply.slurm_trouble}),
      make('h2', {textContent: 'Queues'}), table(columns(reply.queues), reply.queues),
      make('h2', {textContent: 'Allocations'}), table(columns(reply.allocations), reply.allocations));
  };
}

function eventsPage() {
  const list = make('div');
  main.replaceChildren(make('h1', {textContent: 'Events'}), list);
  return async () => {
    const reply = await request('events?newest=200&limit=200');
    list.replaceChildren(table([
      {title: 'Time', value: event => when(event.at)},
      {title: 'Job', kind: 'number', value: event => event.job ? link(String(event.job), '#/job/' + event.job) : ''},
      {title: 'Event', kind: 'wide', value: event => event.text || event.kind}], reply.events.reverse()));
  };
}

function tokenPage() {
  const input = make('input', {type: 'password', autocomplete: 'current-password', size: 40, ariaLabel: 'Token'});
  const form = make('form', {}, input, make('button', {textContent: 'Open'}));
  form.addEventListener('submit', event => {
    event.preventDefault();
    token = input.value.trim();
    localStorage.setItem('roll-token', token);
    show();
  });
  main.replaceChildren(make('h1', {textContent: 'Token'}),
    make('p', {textContent: 'Enter the token that `rollctl web` printed. It is also in the file web.token of rolld\'s state directory.'}), form);
  input.focus();
  view = null;
}

// ---- navigation ----

function page(path) {
  const job = path.match(/^\/job\/(\d+)$/);
  if (job) return jobPage(job[1]);
  return ({'/nodes': nodesPage, '/allocations': allocationsPage, '/events': eventsPage}[path] || jobsPage)();
}

async function refresh() {
  clearTimeout(timer);
  const shown = view;
  if (!shown) return;
  try {
    await shown.update();
    say('live');
  } catch (error) {
    if (error instanceof Refused) return tokenPage();
    say(error.message, true);
  }
  if (view === shown) timer = setTimeout(refresh, document.hidden ? 10 * POLL_MS : POLL_MS);
}

function show() {
  const path = location.hash.slice(1) || '/';
  for (const anchor of document.querySelectorAll('nav a')) anchor.classList.toggle('here', anchor.hash === '#' + path);
  if (!token) return tokenPage();
  view = {path, update: page(path)};
  refresh();
}

window.addEventListener('hashchange', show);
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
show();
