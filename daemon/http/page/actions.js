// The changes of jobs that a person can make, each with a confirmation. rolld decides whether they
// are allowed; buttons are left out if the token's rights do not suffice in any case.
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

// Returns the buttons of the changes that are possible for the job.
export function buttons(job, session) {
  const allowed = action => action.submits ? maySubmit(session) : mayChange(session, job.user);
  return ACTIONS.filter(action => action.when(job) && allowed(action)).map(action => {
    const button = make('button', {type: 'button', textContent: action.title, className: action.danger ? 'danger' : ''});
    button.dataset.key = action.title;
    button.addEventListener('click', async () => {
      try {
        await action.run(job);
      } catch (error) {
        await tell(error.message);
      }
    });
    return button;
  });
}
