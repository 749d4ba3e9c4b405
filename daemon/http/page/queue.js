// The pages of all jobs and of events.
import {bar, doneShare, duration, fill, link, make, number, runtime, state, table, tile, when} from './base.js';

const ROWS = 100;  // maximum number of rows on a page
const FIELDS = 'id,name,kind,user,state,held,cancelling,priority,started_at,ended_at,submitted_at,reason,waiting,' +
  'nodes,array,progress';
const STATES = ['open', 'running', 'queued', 'failed', 'done', 'cancelled', 'all'];
const KINDS = ['any kind', 'train', 'resume', 'command', 'tokenize', 'convert', 'merge', 'open'];

// Returns the number of a job, such as "17"; for a row that stands for an array, "17[0-99]".
function idOf(job) {
  return job.fold ? `${job.fold.first}[${job.fold.indices}]` : String(job.id);
}

function hrefOf(job) {
  return job.fold ? `#/?state=all&name=${job.fold.first}-${job.fold.last}` : `#/job/${job.id}`;
}

function stateOf(job) {
  if (!job.fold) return state(job);
  return make('span', {className: 'states'}, ...Object.entries(job.fold.states).map(([name, count]) =>
    make('span', {className: `state state-${name}`, textContent: `${number(count)} ${name}`})));
}

function doneOf(job) {
  if (job.fold) {
    const ended = ['done', 'failed', 'cancelled'].reduce((sum, name) => sum + (job.fold.states[name] || 0), 0);
    return bar(ended / job.fold.tasks, `${number(ended)} of ${number(job.fold.tasks)}`);
  }
  const share = job.state === 'running' ? doneShare(job) : null;
  return share === null ? '' : bar(share, `${Math.floor(100 * share)} %`);
}

function infoOf(job) {
  if (job.fold && job.state === 'queued') return job.waiting;
  return job.reason || job.waiting || job.nodes.join(' ');
}

const COLUMNS = [
  {title: 'Job', kind: 'id', value: job => link(idOf(job), hrefOf(job))},
  {title: 'Name', kind: 'name', value: job => link(job.name, hrefOf(job))},
  {title: 'User', value: job => job.user},
  {title: 'Kind', value: job => job.kind},
  {title: 'State', value: stateOf},
  {title: 'Done', value: doneOf},
  {title: 'Runtime', kind: 'number', value: job => job.fold ? '' : runtime(job)},
  {title: 'Nodes or reason', kind: 'wide quiet', value: infoOf},
];

function tilesOf(totals) {
  const jobs = totals.jobs, room = totals.capacity;
  const used = (free, all) => `${number(all - free)} / ${number(all)}`;
  return [tile('running', number(jobs.running)), tile('queued', number(jobs.queued)),
    tile('failed', number(jobs.failed)), tile('nodes', number(room.nodes)),
    tile('slots in use', used(room.slots_free, room.slots)),
    room.gpus > 0 && tile('GPUs in use', used(room.gpus_free, room.gpus)),
    tile('longest wait', duration(Math.floor(totals.longest_wait_seconds)))];
}

function choice(label, values, value) {
  const select = make('select', {ariaLabel: label}, ...values.map(one => make('option', {textContent: one, value: one})));
  select.value = values.includes(value) ? value : values[0];
  return select;
}

export function queuePage(context, options) {
  const tiles = make('div', {className: 'tiles'}), notes = make('p', {className: 'message'});
  const list = make('div'), more = make('p', {className: 'quiet pages'});
  const states = choice('State', STATES, options.get('state'));
  const kinds = choice('Kind', KINDS, options.get('kind'));
  const user = make('input', {placeholder: 'user', ariaLabel: 'User', size: 10, value: options.get('user') || ''});
  const search = make('input', {type: 'search', placeholder: 'name or number', ariaLabel: 'Search', size: 20,
    value: options.get('name') || ''});
  const from = Number(options.get('from')) || 0;
  context.main.replaceChildren(make('h1', {textContent: 'Jobs'}), tiles, notes,
    make('div', {className: 'filters', role: 'search'}, states, kinds, user, search), list, more);

  function choose() {
    const chosen = new URLSearchParams();
    if (states.value !== 'open') chosen.set('state', states.value);
    if (kinds.selectedIndex > 0) chosen.set('kind', kinds.value);
    if (user.value.trim()) chosen.set('user', user.value.trim());
    if (search.value.trim()) chosen.set('name', search.value.trim());
    location.hash = '#/' + (String(chosen) ? '?' + chosen : '');
  }
  for (const input of [states, kinds, user, search]) input.addEventListener('change', choose);
  context.search = search;

  const query = new URLSearchParams({limit: ROWS, fields: FIELDS, reverse: 1});
  // Numbers such as 7 or 3-9, and texts with * or ?, are selectors. Any other text finds the jobs whose name contains it.
  const wanted = search.value.trim();
  const selects = /^[\d,\s-]+$/.test(wanted) || /[*?]/.test(wanted);
  if (wanted) query.set('selector', selects ? wanted.replaceAll(' ', '') : `*${wanted}*`);
  if (!selects) query.set('fold', 1);
  if (states.value === 'all') query.set('all', 1);
  else if (states.value !== 'open') query.set('state', states.value);
  if (user.value) query.set('user', user.value);
  if (kinds.selectedIndex > 0) query.set('kind', kinds.value);
  if (from) query.set('from', from);

  function show(reply) {
    if (reply.error) {
      const none = reply.error.code === 'not_found' && wanted;
      fill(list, make('p', {className: none ? 'quiet' : 'message',
        textContent: none ? `No job matches ${wanted}.` : reply.error.message}));
      fill(more);
      return;
    }
    fill(list, table(COLUMNS, reply.jobs, 'No job matches.'));
    const older = new URLSearchParams(options);
    older.set('from', reply.next);
    const newest = new URLSearchParams(options);
    newest.delete('from');
    fill(more, from ? link('Newest jobs', '#/?' + newest) : null, reply.next ? link('Older jobs', '#/?' + older) : null);
  }
  return {
    title: 'Jobs',
    targets: ['jobs?' + query, 'totals'],
    answer(i, reply) {
      if (i === 0) return show(reply);
      if (reply.error) throw new Error(reply.error.message);
      notes.textContent = reply.stopped ? 'No job starts, because an operator stopped all starts with `rollctl drain --all`.' : '';
      fill(tiles, ...tilesOf(reply));
    },
  };
}

export function eventsPage(context) {
  const list = make('div');
  context.main.replaceChildren(make('h1', {textContent: 'Events'}), list);
  return {
    title: 'Events',
    targets: ['events?newest=200&limit=200'],
    answer(_, reply) {
      if (reply.error) throw new Error(reply.error.message);
      fill(list, table([
        {title: 'Time', kind: 'nowrap', value: event => when(event.at)},
        {title: 'Job', kind: 'id', value: event => event.job ? link(String(event.job), '#/job/' + event.job) : ''},
        {title: 'Event', kind: 'wide', value: event => event.text || event.kind}], reply.events.toReversed()));
    },
  };
}
