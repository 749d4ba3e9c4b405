// Buttons that change jobs, nodes, allocation queues and allocations, each with a confirmation. rolld decides whether a
// change is allowed. A button that the token's rights can never allow is not shown.
import {ask, get, make, post, tell} from './base.js';

// Returns whether the session may change jobs of this user.
export function mayChange(session, user) {
  return !session.read_only && session.scope === 'operate' && (session.operator || session.user === user);
}

function maySubmit(session) {
  return !session.read_only && session.scope !== 'read';
}

// Returns the job file for a new submission, as `rollctl resubmit` makes it.
function documentAgain(job) {
  const file = structuredClone(job.spec);
  if (Object.values(file.env || {}).includes(null))
    throw new Error(`Job ${job.id} belongs to ${job.user}, and only this user may read the values of its environment.`);
  for (const key of ['begin', 'deadline', 'array', 'sweep', 'cron', 'then']) delete file[key];
  const output = file.output || '';
  return {...file, after: [], hold: false, output: output.includes('{id}') ? output : output + '-again-{id}'};
}

async function submitAgain(job) {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  const key = 'web-' + [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('');
  const {job: whole} = await get('jobs/' + job.id);
  const reply = await post('submit', {key, base: '/', job: documentAgain(whole)});
  location.hash = '#/job/' + reply.id;
}

async function changePriority(job) {
  const text = await ask(`Change the priority of job ${job.id}?`, {agree: 'Change',  decline: 'Keep',
    detail: 'Jobs of higher priority start first.', input: {label: 'Priority', type: 'number', value: job.priority}});
  if (text === null) return;
  const priority = Number(text);
  if (text === '' || !Number.isInteger(priority)) throw new Error(`The priority is "${text}"; allowed: a whole number.`);
  await post('update', {selector: String(job.id), priority});
}

function confirmed(question, options, act) {
  return async job => {
    if (await ask(question(job), {...options, detail: job.name})) await act(job);
  };
}

const one = job => ({selector: String(job.id)});
const ACTIONS = [
  {title: 'Hold', when: job => job.state === 'queued' && !job.held,
    run: confirmed(job => `Hold job ${job.id}? It does not start before it is released.`, {agree: 'Hold'},
      job => post('hold', one(job)))},
  {title: 'Release', when: job => job.state === 'queued' && job.held,
    run: confirmed(job => `Release job ${job.id}?`, {agree: 'Release'}, job => post('release', one(job)))},
  {title: 'Priority', when: job => job.state === 'queued', run: changePriority},
  {title: 'Checkpoint', when: job => job.state === 'running' && ['train', 'resume'].includes(job.kind),
    run: confirmed(job => `Ask job ${job.id} to save a checkpoint now?`, {agree: 'Save'},
      job => post(`jobs/${job.id}/checkpoint`, {}))},
  {title: 'Submit again', when: job => !['queued', 'running'].includes(job.state), submits: true,
    run: confirmed(job => `Submit job ${job.id} again as a new job?`, {agree: 'Submit'}, submitAgain)},
  {title: 'Cancel', danger: true, when: job => ['queued', 'running'].includes(job.state) && !job.cancelling,
    run: confirmed(job => `Cancel job ${job.id}?`, {agree: 'Cancel the job', decline: 'Keep it', danger: true},
      job => post(`jobs/${job.id}/cancel`, {reason: 'cancelled from the dashboard'}))},
];

// Makes the button of an action on `thing`. `key` is unique among the buttons of the page.
function buttonOf(action, thing, key) {
  const button = make('button', {type: 'button', textContent: action.title, className: action.danger ? 'danger' : ''});
  button.dataset.key = key;
  button.addEventListener('click', async () => {
    try {
      await action.run(thing);
    } catch (error) {
      await tell(error.message);
    }
  });
  return button;
}

// Returns a button for each action that the job's state and the session's rights allow.
export function buttons(job, session) {
  const allowed = action => action.submits ? maySubmit(session) : mayChange(session, job.user);
  return ACTIONS.filter(action => action.when(job) && allowed(action))
    .map(action => buttonOf(action, job, action.title));
}

// ---- nodes and allocation queues, which only the operator may change ----

export function mayOperate(session) {
  return !session.read_only && session.operator && session.scope === 'operate';
}

async function confirm(question, options, path, args) {
  if (await ask(question, options)) await post(path, args);
}

const NODE_ACTIONS = [
  {title: 'Drain', when: node => !node.draining,
    run: node => confirm(`Drain node ${node.node}?`, {agree: 'Drain the node', decline: 'Keep it',
      detail: 'Its running jobs continue, but no further job starts there.'}, 'drain', {node: node.node})},
  {title: 'Undrain', when: node => node.draining || node.excluded,
    run: node => confirm(`Undrain node ${node.node}?`, {agree: 'Undrain the node', detail: 'Jobs start there again.'},
      'undrain', {node: node.node})},
];
const QUEUE_ACTIONS = [
  {title: 'Pause', when: queue => queue.state !== 'paused',
    run: queue => confirm(`Pause the queue ${queue.name}?`, {agree: 'Pause the queue',
      detail: 'rolld requests no further allocation. The present allocations continue.'}, 'alloc_pause', {queue: queue.name})},
  {title: 'Resume', when: queue => queue.state === 'paused',
    run: queue => confirm(`Resume the queue ${queue.name}?`, {agree: 'Resume the queue',
      detail: 'rolld requests allocations again.'}, 'alloc_resume', {queue: queue.name})},
  {title: 'Remove', danger: true, when: () => true,
    run: queue => confirm(`Remove the queue ${queue.name}?`, {agree: 'Remove the queue', decline: 'Keep it', danger: true,
      detail: 'rolld cancels all its allocations. The jobs that run there stop and return to the queue.'},
    'alloc_remove', {queue: queue.name})},
];

const ALLOCATION_ACTIONS = [
  {title: 'Close', when: one => !['closed', 'releasing'].includes(one.state),
    run: one => confirm(`Close allocation ${one.id}?`, {agree: 'Close the allocation', decline: 'Keep it',
      detail: 'No further job starts there. rolld releases it when its jobs have ended.'}, 'alloc_close', {allocation: one.id})},
  {title: 'Cancel', danger: true, when: one => one.state !== 'releasing',
    run: one => confirm(`Cancel allocation ${one.id}?`, {agree: 'Cancel the allocation', decline: 'Keep it', danger: true,
      detail: 'The jobs that run there stop and return to the queue.'}, 'alloc_cancel', {allocation: one.id})},
];

// Returns a column with the buttons of each row, for table(); no column if the session may not use them.
function actionsColumn(actions, nameOf, session) {
  if (!mayOperate(session)) return [];
  return [{title: 'Actions', value: row => make('div', {className: 'actions'}, ...actions
    .filter(action => action.when(row)).map(action => buttonOf(action, row, `${action.title} ${nameOf(row)}`)))}];
}

export function nodeActions(session) {
  return actionsColumn(NODE_ACTIONS, node => node.node, session);
}

export function queueActions(session) {
  return actionsColumn(QUEUE_ACTIONS, queue => queue.name, session);
}

export function allocationActions(session) {
  return actionsColumn(ALLOCATION_ACTIONS, one => `allocation ${one.id}`, session);
}
