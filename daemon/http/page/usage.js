// The page with a user's use and limits, and with a report about used and wasted resources.
import {fill, get, link, make, number, section, table, when} from './base.js';

function ofLimit(row, key) {
  const limit = row.limits?.[key];
  return limit === null || limit === undefined ? number(row[key], 3) : `${number(row[key], 3)} / ${number(limit)}`;
}

const USE_COLUMNS = [
  {title: 'User or account', kind: 'name', value: row => `${row.scope} ${row.name}`},
  {title: 'Share', kind: 'number', value: row => number(row.share)},
  {title: 'Recent use', kind: 'number', value: row => `${Math.round(row.recent_percent)} %`},
  ...[['Slots', 'slots'], ['GPUs', 'gpus'], ['GPU-hours', 'gpu_hours'], ['Jobs', 'jobs']].map(([title, key]) =>
    ({title, kind: 'number', value: row => ofLimit(row, key)})),
];
const WAITING_COLUMNS = [
  {title: 'Position', kind: 'number', value: job => number(job.position)},
  {title: 'Job', kind: 'id', value: job => link(String(job.id), '#/job/' + job.id)},
  {title: 'Name', kind: 'name', value: job => link(job.name, '#/job/' + job.id)},
  {title: 'Tasks', kind: 'number', value: job => job.tasks > 1 ? number(job.tasks) : ''},
  {title: 'Starts by', value: job => when(job.starts_at)},
  {title: 'Why it waits', kind: 'wide quiet', value: job => job.waiting},
];
const CAUSES = ['failed', 'requeued', 'cancelled'];

// Adds up the rows of a report that have the same value of `by`. Returns rows {key, jobs, held, failed, ...} with times
// in hours.
function sums(rows, by, unit) {
  const all = new Map();
  for (const row of rows) {
    const key = row[by] || '(none)';
    const sum = all.get(key) || {key, jobs: 0, held: 0, failed: 0, requeued: 0, cancelled: 0};
    sum.jobs += row.jobs;
    for (const part of ['held', ...CAUSES]) sum[part] += (row[part]?.[unit + '_ms'] || 0) / 3600000;
    all.set(key, sum);
  }
  return [...all.values()].sort((a, b) => a.key < b.key ? -1 : 1);
}

async function readReport(by) {
  const rows = [];
  for (let from = 0; from !== null && from !== undefined;) {
    const page = await get(`report?by=${by}&from=${from}`);
    rows.push(...page.rows);
    from = page.next;
  }
  return rows;
}

export function usagePage(context, options) {
  const name = options.get('user') || '';  // '': the user of the token
  const own = make('div'), report = make('div');
  const user = make('input', {ariaLabel: 'User', size: 14, value: name});
  const by = make('select', {ariaLabel: 'By'}, ...['user', 'account', 'kind', 'week'].map(one =>
    make('option', {textContent: 'by ' + one, value: one})));
  user.addEventListener('change', () => { location.hash = '#/usage?user=' + encodeURIComponent(user.value.trim()); });
  context.main.replaceChildren(make('h1', {textContent: 'Usage'}),
    make('div', {className: 'filters'}, make('label', {}, 'User', user)), own,
    section('Report', make('div', {className: 'filters'}, by), report));

  async function showReport() {
    const rows = await readReport(by.value);
    const unit = rows.some(row => row.held.gpu_ms > 0) ? 'gpu' : 'slot';
    fill(report, table([
      {title: by.value, kind: 'name', value: row => row.key}, {title: 'Jobs', kind: 'number', value: row => number(row.jobs)},
      {title: `${unit === 'gpu' ? 'GPU' : 'Slot'}-hours`, kind: 'number', value: row => row.held.toFixed(2)},
      ...CAUSES.map(cause => ({title: 'Lost: ' + cause, kind: 'number', value: row => row[cause].toFixed(2)}))],
    sums(rows, by.value, unit), 'No job has used anything yet.'));
  }
  const showOrSay = () => showReport().catch(error => context.say(error.message, true));
  by.addEventListener('change', showOrSay);
  showOrSay();
  return {
    title: 'Usage',
    targets: ['usage' + (name && '?user=' + encodeURIComponent(name))],
    answer(_, reply) {
      if (reply.error) throw new Error(reply.error.message);
      user.value ||= reply.user;
      const more = reply.queued - reply.waiting.reduce((sum, job) => sum + job.tasks, 0);
      fill(own,
        section('Share and limits', table(USE_COLUMNS, reply.usage)),
        section('Waiting', make('p', {className: 'quiet',
          textContent: `${number(reply.running)} running and ${number(reply.queued)} queued jobs of ${reply.user}`}),
        table(WAITING_COLUMNS, reply.waiting, 'No job waits.'),
        more > 0 && make('p', {className: 'quiet', textContent: `Queued jobs that are not shown: ${number(more)}`})));
    },
  };
}
