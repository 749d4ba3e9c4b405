// The pages of all sweeps and of one sweep.
import {bar, fill, get, link, make, missing, number, section, state, table} from './base.js';
import {chart} from './chart.js';

const LISTED = 100;  // number of newest rows that are searched for sweeps
const known = new Map();  // by job: the section `sweep` of the array's job file, or null

async function sweepOf(id) {
  if (!known.has(id)) known.set(id, (await get('jobs/' + id)).job.spec?.sweep || null);
  return known.get(id);
}

function doneText(row) {
  const ended = ['done', 'failed', 'cancelled'].reduce((sum, name) => sum + (row.fold.states[name] || 0), 0);
  return bar(ended / row.fold.tasks, `${number(ended)} of ${number(row.fold.tasks)} ended`);
}

export function sweepsPage(context) {
  const list = make('div');
  context.main.replaceChildren(make('h1', {textContent: 'Sweeps'}), list);
  return {
    title: 'Sweeps',
    targets: [`jobs?all=1&fold=1&reverse=1&limit=${LISTED}&fields=id,name,user,state`],
    async answer(_, reply) {
      if (reply.error) throw new Error(reply.error.message);
      const rows = [];
      for (const row of reply.jobs.filter(one => one.fold)) {
        const sweep = await sweepOf(row.fold.first);
        if (sweep) rows.push({...row, sweep});
      }
      fill(list, table([
        {title: 'Sweep', kind: 'id', value: row => link(String(row.fold.first), '#/sweep/' + row.fold.first)},
        {title: 'Name', kind: 'name', value: row => link(row.name, '#/sweep/' + row.fold.first)},
        {title: 'User', value: row => row.user},
        {title: 'Trials', kind: 'number', value: row => number(row.fold.tasks)},
        {title: 'Ended', value: doneText},
        {title: 'Metric', value: row => `${row.sweep.metric || 'loss'}, ${row.sweep.mode || 'min'}`},
      ], rows, 'None of the newest jobs is a sweep; rollctl sweep FILE submits one.'));
    },
  };
}

function valueText(value) {
  return typeof value === 'number' ? number(value) : value === null ? '' : String(value);
}

// Draws a chart for each numeric parameter that has several values. A point is a value of the parameter
// and the best metric of the trials with this value.
function drawings(sweep) {
  const names = Object.keys(sweep.trials[0]?.parameters || {});
  const better = (a, b) => sweep.mode === 'max' ? a > b : a < b;
  const charts = [];
  for (const name of names) {
    const best = new Map();
    for (const trial of sweep.trials) {
      const at = trial.parameters[name];
      if (typeof trial.best !== 'number' || typeof at !== 'number') continue;
      if (!best.has(at) || better(trial.best, best.get(at))) best.set(at, trial.best);
    }
    if (best.size < 2) continue;
    const points = [...best].sort((a, b) => a[0] - b[0]);
    const told = points.reduce((a, b) => better(b[1], a[1]) ? b : a);
    charts.push(chart(`best ${sweep.metric} by ${name}`, points, name, false, told));
  }
  return charts;
}

export function sweepPage(context, id) {
  const head = make('div'), charts = make('div', {className: 'charts'}), list = make('div');
  context.main.replaceChildren(head, charts, list);
  return {
    title: `Sweep ${id}`,
    targets: [`jobs/${id}/sweep`],
    answer(_, sweep) {
      if (sweep.error?.code === 'not_found') return context.main.replaceChildren(missing(id));
      if (sweep.error) throw new Error(sweep.error.message);
      if (!head.isConnected) context.main.replaceChildren(head, charts, list);
      const best = sweep.trials.find(trial => trial.id === sweep.best);
      const names = Object.keys(sweep.trials[0]?.parameters || {});
      fill(head, make('h1', {textContent: `Sweep ${sweep.id}: ${sweep.name}`}),
        bar(sweep.percent / 100, `${Math.round(sweep.percent)} % of ${number(sweep.trials.length)} ${sweep.trials.length === 1 ? 'trial' : 'trials'}`),
        make('p', {}, best ? make('span', {}, 'Best: ', link(`job ${best.id}`, '#/job/' + best.id),
          `, ${sweep.metric} ${number(best.best)} at step ${number(best.best_step)} with `,
          Object.entries(best.parameters).map(([name, value]) => `${name} = ${valueText(value)}`).join(', '))
          : `No trial has a value of ${sweep.metric} yet.`));
      charts.replaceChildren(...drawings(sweep));
      fill(list, section('Trials', table([
        {title: 'Job', kind: 'id', value: trial => link(String(trial.id), '#/job/' + trial.id)},
        ...names.map(name => ({title: name, kind: 'number', value: trial => valueText(trial.parameters[name])})),
        {title: 'State', value: state},
        {title: 'Step', kind: 'number', value: trial => number(trial.step)},
        {title: `Last ${sweep.metric}`, kind: 'number', value: trial => number(trial.last)},
        {title: `Best ${sweep.metric}`, kind: 'number', value: trial => trial.id === sweep.best ?
          make('strong', {textContent: number(trial.best) + ' ★'}) : number(trial.best)},
        {title: 'At step', kind: 'number', value: trial => number(trial.best_step)},
        {title: 'Reason', kind: 'wide quiet', value: trial => trial.reason},
      ], sweep.trials)));
    },
  };
}
