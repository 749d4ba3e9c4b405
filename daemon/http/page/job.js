// The page of one job, in parts: overview, log, history and job file.
import {buttons} from './actions.js';
import {bar, bytes, doneShare, duration, facts, fill, get, link, make, missing, number, runtime, section, state, table,
  when} from './base.js';
import {chart, schedule} from './chart.js';
import {logPart} from './log.js';

const POINTS = 1000;  // wanted number of rows of metrics.jsonl for the curves
const EVENTS = 100;  // maximum number of the job's newest events that are shown
const PHASE_POINTS = 200;  // wanted number of rows of metrics.jsonl for the phases
const PLANS_MAX = 5;  // maximum number of requests for the schedule of the pipeline
const READ_MS = 3000;  // shortest time between two reads of data that the stream does not send
const PARTS = [['', 'Overview'], ['log', 'Log'], ['history', 'History'], ['file', 'Job file']];
const CURVES = [['loss', 'Loss'], ['tokens_per_second', 'Tokens per second'], ['valid_loss', 'Validation loss'],
  ['grad_norm', 'Gradient norm'], ['lr', 'Learning rate'], ['mfu', 'MFU'], ['memory_bytes', 'Memory (GiB)'],
  ['wall_s', 'Time of a step (s)'], ['reward', 'Reward'], ['accuracy', 'Accuracy']];

const NOISY = ['tokens_per_second', 'grad_norm', 'mfu', 'wall_s'];

const trains = job => job.kind === 'train' || job.kind === 'resume';

// ---- overview ----

function progressOf(job) {
  const share = doneShare(job), told = job.progress || {};
  if (share === null || job.state !== 'running') return null;
  const left = told.eta_seconds > 0 ? `, ${duration(told.eta_seconds)} left` : '';
  return bar(share, `step ${number(told.step)} of ${number(told.steps)}${left}`);
}

function whyOf(job) {
  if (job.holds.length === 0) return null;
  return section(job.state === 'queued' ? 'Why it waits' : 'Trouble', ...job.holds.map(hold =>
    make('div', {className: 'card'},
      make('p', {}, make('span', {className: 'rule', textContent: hold.rule}), hold.why),
      make('p', {className: 'quiet', textContent: hold.remedy}),
      hold.nodes ? make('details', {}, make('summary', {textContent: hold.nodes.length === 1 ? 'Why not on this node' : `Why not on these ${hold.nodes.length} nodes`}), table([
        {title: 'Node', value: node => node.node}, {title: 'Why', kind: 'wide', value: node => node.why}], hold.nodes)) : null)));
}

// Returns the layout of a training job, as `rollctl show` does. `head` is the first row of its metrics.
function layoutOf(job, head) {
  const spec = job.spec, micro = spec?.train?.micro_batch_size;
  if (!trains(job) || typeof micro !== 'number') return '';
  const parallel = spec.parallel || {}, wanted = job.resources;
  const size = key => parallel[key] || 1;
  const perNode = Math.ceil(wanted.gpus_per_node || 0) || Math.floor(wanted.slots_per_node / (wanted.slots_per_rank || 1));
  const dp = parallel.dp || Math.floor(wanted.nodes * perNode / (size('tp') * size('pp') * size('cp')));
  const sizes = [['dp', dp], ...['tp', 'cp', 'pp', 'vpp'].map(key => [key, size(key)])].filter(([, value]) => value > 1);
  const again = parallel.recompute || 'none', asked = parallel.schedule_file ? 'schedule file' : parallel.schedule || 'auto';
  const order = asked === 'auto' ? job.progress?.schedule || head?.schedule || 'schedule auto' : asked;
  return [...sizes.map(([key, value]) => `${key} ${value}`), parallel.zero > 0 ? `zero ${parallel.zero}` : '',
    parallel.sequence ? 'sequence' : '', again === 'none' ? '' : `recompute ${again}`, size('pp') > 1 ? order : '',
    size('pp') > 1 && parallel.group > 0 ? `group ${parallel.group}` : '', `micro_batch_size ${micro}`].filter(text => text).join(', ');
}

function factsOf(job, head) {
  const wanted = job.resources;
  const slots = wanted.slots_per_node === 1 ? '1 slot' : `${number(wanted.slots_per_node)} slots`;
  const asks = [wanted.nodes > 1 ? `${number(wanted.nodes)} nodes × ${slots}` : slots,
    wanted.gpus_per_node ? `${number(wanted.gpus_per_node)} ${wanted.gpus_per_node === 1 ? 'GPU' : 'GPUs'}` : '', wanted.memory ? bytes(wanted.memory) : '',
    wanted.cpus ? `${number(wanted.cpus)} ${wanted.cpus === 1 ? 'CPU' : 'CPUs'}` : '', wanted.time_seconds ? duration(wanted.time_seconds) : '']
    .filter(text => text).join(', ');
  const array = job.array ? link(`tasks of job ${job.array.job}`, `#/?state=all&name=${job.array.job}`) : '';
  return facts([['User', job.user], ['Kind', job.kind], ['Nodes', job.nodes.join(' ')], ['Asks for', asks],
    ['Layout', layoutOf(job, head)],
    ['Priority', number(job.priority)], ['Submitted', when(job.submitted_at)], ['Starts by', when(job.starts_at)], ['Started', when(job.started_at)],
    ['Ended', when(job.ended_at)], ['Runtime', runtime(job)],
    ['Memory in use', job.progress?.memory ? bytes(job.progress.memory) : ''],
    ['CPU time of this attempt', job.progress?.cpu_seconds ? duration(job.progress.cpu_seconds) : ''],
    ['Exit code', job.state === 'failed' ? job.exit_code : ''],
    ['After', job.after.join(' ')], ['Array', array],
    ['Sweep', job.spec?.sweep ? link('trials', '#/sweep/' + job.id) : ''],
    ['Output', job.output]]);
}

// Returns the mean and the longest time of each phase, the longest first.
function phaseTimes(rows) {
  const sums = new Map();
  let steps = 0, wall = 0;
  for (const row of rows) {
    if (!row.phases || row.step === 1) continue;
    ++steps;
    wall += row.wall_s || 0;
    for (const [name, times] of Object.entries(row.phases)) {
      const sum = sums.get(name) || {name, mean: 0, longest: 0};
      sum.mean += times.mean || 0;
      sum.longest += times.max || 0;
      sums.set(name, sum);
    }
  }
  const phases = [...sums.values()].filter(phase => phase.longest > 0).sort((a, b) => b.mean - a.mean);
  return {steps, wall, phases};
}

function phasesOf(rows) {
  const {steps, wall, phases} = phaseTimes(rows);
  if (steps === 0) return null;
  const all = phases.reduce((sum, phase) => sum + phase.mean, 0);
  return section('Phases of a step',
    make('p', {className: 'quiet', textContent: `means over ${number(steps)} ${steps === 1 ? 'step' : 'steps'}; mean time of a step: ${number(1000 * wall / steps)} ms`}),
    table([{title: 'Phase', kind: 'name', value: phase => phase.name},
      {title: 'Share', value: phase => bar(phase.mean / all, `${(100 * phase.mean / all).toFixed(1)} %`)},
      {title: 'Mean (ms)', kind: 'number', value: phase => (1000 * phase.mean / steps).toFixed(3)},
      {title: 'Longest rank (ms)', kind: 'number', value: phase => (1000 * phase.longest / steps).toFixed(3)}], phases));
}

function curvesOf(rows) {
  const sets = new Set(rows.flatMap(row => Object.keys(row)).filter(key => key.startsWith('valid_loss/')));
  const drawn = [...CURVES, ...[...sets].map(key => [key, 'Validation loss of ' + key.slice(11)])];
  return drawn.map(([key, title]) => [title, rows.filter(row => typeof row[key] === 'number' && typeof row.step === 'number')
    .map(row => [row.step, key === 'memory_bytes' ? row[key] / 2 ** 30 : row[key]]), key])
    .filter(([, points]) => points.length > 0).map(([title, points, key]) => chart(title, points, 'step', NOISY.includes(key)));
}

// Returns the newest scores of evaluation tasks and validation sets.
function scoresOf(rows) {
  const newest = new Map();
  for (const row of rows)
    for (const [key, value] of Object.entries(row))
      if (/^(task_|valid_loss|valid_perplexity|export_valid_loss)/.test(key) && typeof value === 'number')
        newest.set(key, {key, value, step: row.step});
  if (newest.size === 0) return null;
  const name = row => row.key.replace('/', ' of ').replaceAll('_', ' ');
  return section('Evaluation', table([{title: 'Measure', kind: 'name', value: name},
    {title: 'Newest', kind: 'number', value: row => number(row.value)},
    {title: 'At step', kind: 'number', value: row => number(row.step)}], [...newest.values()]));
}

async function pipelineOf(id) {
  const plan = await get(`jobs/${id}/pipeline`);
  const pipeline = plan.pipeline;
  return section('Pipeline', make('p', {className: 'quiet', textContent: `${pipeline.schedule}, ` +
    `${number(pipeline.microbatches)} micro-batches, bubble ${number(100 * pipeline.bubble, 3)} % of the ideal time; ` +
    'F: forward, B: backward, W: gradients of weights'}), schedule(pipeline.operations, pipeline.makespan));
}

function overviewPart(id) {
  const why = make('div'), told = make('div'), charts = make('div', {className: 'charts'});
  const scores = make('div'), phases = make('div'), pipeline = make('div');
  const root = make('div', {}, why, told, charts, scores, phases, pipeline);
  let plans = PLANS_MAX, head = null;

  async function metrics(job) {
    if (job.attempt === 0) return;
    const [{rows}, timed] = await Promise.all([get(`jobs/${id}/metrics?points=${POINTS}`),
      get(`jobs/${id}/metrics?points=${PHASE_POINTS}&keys=step,phases,wall_s`)]);
    head = rows[0];
    fill(told, progressOf(job), factsOf(job, head));
    fill(charts, ...curvesOf(rows));
    fill(scores, scoresOf(rows));
    fill(phases, phasesOf(timed.rows));
  }
  return {root, show(job) {
    fill(why, whyOf(job));
    fill(told, progressOf(job), factsOf(job, head));
  }, async read(job) {
    await metrics(job);
    if (plans === 0 || !(job.spec?.parallel?.pp > 1)) return;
    --plans;
    try {
      fill(pipeline, await pipelineOf(id));
      plans = 0;
    } catch (error) {
      fill(pipeline, section('Pipeline', make('p', {className: 'quiet', textContent: error.message})));
    }
  }};
}

// ---- history ----

const usage = (attempt, value) => attempt.usage ? value(attempt.usage) : '';
const ATTEMPT_COLUMNS = [
  {title: 'Attempt', value: attempt => attempt.token},
  {title: 'State', value: attempt => make('span', {className: `state state-${attempt.outcome || attempt.state}`,
    textContent: attempt.outcome || attempt.state})},
  {title: 'Nodes', kind: 'wide', value: attempt => attempt.nodes.join(' ')},
  {title: 'Started', kind: 'nowrap', value: attempt => when(attempt.started_at)},
  {title: 'Ended', kind: 'nowrap', value: attempt => when(attempt.ended_at)},
  {title: 'CPU', kind: 'number', value: attempt => usage(attempt, used => duration(used.cpu_seconds))},
  {title: 'GPU', kind: 'number', value: attempt => usage(attempt, used => duration(used.gpu_seconds))},
  {title: 'Memory peak', kind: 'number', value: attempt => usage(attempt, used => bytes(used.memory_peak))},
  {title: 'Disk', kind: 'number',
    value: attempt => usage(attempt, used => bytes((used.disk_read || 0) + (used.disk_written || 0)))},
  {title: 'Exit', kind: 'number', value: attempt => attempt.exit_code ?? ''},
  {title: 'Reason', kind: 'wide quiet', value: attempt => attempt.reason},
];

const SAVED_COLUMNS = [{title: 'Step', kind: 'id', value: one => number(one.step)},
  {title: 'Directory', kind: 'wide', value: one => one.directory}];

// Exports of checkpoints during the training (export.every), the newest first.
function stepExportsOf(job) {
  return job.exports?.length > 0 && section('Exports of checkpoints', table(SAVED_COLUMNS, job.exports.toReversed()));
}

function exportOf(job) {
  if (!job.exported && !job.export_job) return null;
  return section('Export', facts([['Directory', job.exported],
    ['Made by', job.export_job ? link('job ' + job.export_job, '#/job/' + job.export_job) : '']]));
}

const REQUEST_COLUMNS = [
  {title: 'Attempt', value: one => one.token},
  {title: 'Request', value: one => one.value ? `${one.what} ${one.value}` : one.what},
  {title: 'By', value: one => one.by},
  {title: 'Step', kind: 'number', value: one => one.step ? number(one.step) : ''},
  {title: 'Answer', kind: 'wide', value: one => one.answered ? one.answer : 'waiting'},
];

// Requests to the running training (rollctl tell), the newest first.
function requestsOf(job) {
  const rows = job.attempts.flatMap(({token, requests}) => (requests || []).map(one => ({...one, token})));
  return rows.length > 0 && section('Requests', table(REQUEST_COLUMNS, rows.toReversed()));
}

function historyPart(id) {
  const root = make('div'), events = make('div');
  return {root: make('div', {}, root, events), show(job) {
    fill(root,
      section('Attempts', table(ATTEMPT_COLUMNS, job.attempts.toReversed(), 'The job has not started yet.')),
      requestsOf(job),
      trains(job) && section('Checkpoints', table(SAVED_COLUMNS, job.checkpoints.toReversed(),
        'rolld has recorded no checkpoint yet.')),
      stepExportsOf(job), exportOf(job));
  }, async read() {
    const reply = await get(`events?id=${id}&limit=10000`);
    const newest = reply.events.slice(-EVENTS).toReversed();
    const left = reply.events.length - newest.length;
    fill(events, section('Events', table([{title: 'Time', kind: 'nowrap', value: one => when(one.at)},
      {title: 'Event', kind: 'wide', value: one => one.text || one.kind}], newest),
    left > 0 && make('p', {className: 'quiet', textContent: `and ${number(left)} earlier events: rollctl events ${id}`})));
  }};
}

// ---- job file ----

function hooksOf(job) {
  const hooks = Object.entries(job.spec?.train?.hooks || {});
  if (hooks.length === 0) return null;
  return section('Hooks', table([{title: 'Moment', value: ([moment]) => moment},
    {title: 'Command', kind: 'wide', value: ([, hook]) => (hook.command || []).join(' ')},
    {title: 'Timeout', value: ([, hook]) => hook.timeout || '60s'},
    {title: 'If it fails', value: ([, hook]) => hook.on_fail || 'warn'}], hooks));
}

function containerOf(job) {
  const container = job.spec?.container;
  return container ? section('Container', facts(Object.entries(container).map(([name, value]) =>
    [name, typeof value === 'object' ? JSON.stringify(value) : String(value)]))) : null;
}

function filePart() {
  const root = make('div');
  let shown = '';
  return {root, read() {}, show(job) {
    const text = JSON.stringify(job.spec, null, 2);
    if (text === shown) return;
    shown = text;
    fill(root, hooksOf(job), containerOf(job),
      section('Job file', make('pre', {tabIndex: 0, ariaLabel: 'Job file', textContent: text})));
  }};
}

export function jobPage(context, id, name) {
  const head = make('div', {className: 'head'});
  const tabs = make('nav', {className: 'tabs', ariaLabel: 'Parts of the job'}, ...PARTS.map(([path, title]) => {
    const tab = link(title, `#/job/${id}` + (path && '/' + path));
    if (path === name) tab.setAttribute('aria-current', 'page');
    return tab;
  }));
  const part = {'': overviewPart, log: logPart, history: historyPart, file: filePart}[name](id);
  context.main.replaceChildren(head, tabs, part.root);
  let job = null, timer = 0, readAt = 0, readState = '';

  // Reads files and events, which the stream does not send. Reads at once if the job's state has
  // changed, otherwise every READ_MS while the job runs. A job that reports its progress every second
  // therefore causes no more requests.
  async function read() {
    clearTimeout(timer);
    timer = 0;
    const left = job.state === readState ? readAt + READ_MS - Date.now() : 0;
    if (left <= 0) {
      [readAt, readState] = [Date.now(), job.state];
      await part.read(job);
      // The timer runs already if the job has changed meanwhile.
      if (!context.isShown() || timer || job.state !== 'running') return;
    }
    timer = setTimeout(() => read().catch(context.failed), left > 0 ? left : READ_MS);
  }
  return {
    title: `Job ${id}`,
    targets: ['jobs/' + id, ...(part.targets || [])],
    async live(yes) { if (part.live) await part.live(yes); },
    async answer(i, reply) {
      if (i > 0) return part.take(reply);
      if (reply.error?.code === 'not_found') return context.main.replaceChildren(missing(id));
      if (reply.error) throw new Error(reply.error.message);
      if (!head.isConnected) context.main.replaceChildren(head, tabs, part.root);
      job = reply.job;
      fill(head, make('h1', {}, `Job ${job.id}: ${job.name} `, state(job)),
        make('div', {className: 'actions'}, ...buttons(job, context.session)),
        job.reason && job.state !== 'done' ? make('p', {className: job.state === 'failed' ? 'message' : 'quiet', textContent: job.reason}) : null);
      part.show(job);
      await read();
    },
    stop() { clearTimeout(timer); if (part.stop) part.stop(); },
  };
}
