// The pages of nodes and of Slurm allocations.
import {allocationActions, nodeActions, queueActions} from './actions.js';
import {bytes, fill, link, make, number, section, table, when} from './base.js';

function stateOf(node) {
  if (node.excluded) return ['excluded', 'failed'];
  if (node.silent) return ['silent', 'failed'];
  return node.draining ? ['draining', 'queued'] : ['ready', 'running'];
}

function nodeState(node) {
  const [text, colour] = stateOf(node);
  return make('span', {className: `state state-${colour}`, textContent: text});
}

function jobsOf(node) {
  const shown = node.jobs.slice(0, 12).flatMap(id => [link(String(id), '#/job/' + id), ' ']);
  const rest = node.jobs.length - 12;
  return make('span', {}, ...shown, rest > 0 ? `and ${number(rest)} more` : '');
}

const NODE_COLUMNS = [
  {title: 'Node', kind: 'name', value: node => node.node},
  {title: 'State', value: nodeState},
  {title: 'Slots free', kind: 'number', value: node => `${number(node.slots_free)} / ${number(node.slots)}`},
  {title: 'GPUs free', kind: 'number', value: node => node.gpus ? `${number(node.gpus_free)} / ${number(node.gpus)}` : ''},
  {title: 'Memory free', kind: 'number', value: node => node.memory ? `${bytes(node.memory_free)} / ${bytes(node.memory)}` : ''},
  {title: 'Last heartbeat', kind: 'number', value: node => node.heard_ms_ago === null ? '' : `${number(node.heard_ms_ago / 1000, 2)} s ago`},
  {title: 'Limits by', kind: 'quiet', value: node => node.limits},
  {title: 'Jobs', kind: 'wide', value: jobsOf},
];

export function nodesPage(context) {
  const list = make('div'), notes = make('p', {className: 'message'});
  context.main.replaceChildren(make('h1', {textContent: 'Nodes'}), notes, list);
  return {
    title: 'Nodes',
    targets: ['nodes'],
    answer(_, reply) {
      if (reply.error) throw new Error(reply.error.message);
      notes.textContent = reply.stopped ? 'No job starts: ' + reply.stopped : '';
      fill(list, table([...NODE_COLUMNS, ...nodeActions(context.session)], reply.nodes, 'No node is connected.'),
        reply.excluded.length > 0 && section('Excluded machines', table([
          {title: 'Machine', value: one => one.machine}, {title: 'Until', value: one => when(one.until)},
          {title: 'Reason', kind: 'wide quiet', value: one => one.reason}], reply.excluded)));
    },
  };
}

const QUEUE_COLUMNS = [
  {title: 'Queue', kind: 'name', value: queue => queue.name},
  {title: 'State', value: queue => queue.state},
  {title: 'Partition', value: queue => queue.partition},
  {title: 'Granted', kind: 'number', value: queue => number(queue.granted)},
  {title: 'Waiting', kind: 'number', value: queue => number(queue.waiting)},
  {title: 'GPU-hours', kind: 'number', value: queue => number(queue.gpu_hours)},
  {title: 'Failures', kind: 'number', value: queue => number(queue.failures)},
  {title: 'Reason', kind: 'wide quiet', value: queue => queue.reason},
];
const ALLOCATION_COLUMNS = [
  {title: 'Allocation', kind: 'number', value: one => number(one.id)},
  {title: 'Queue', kind: 'name', value: one => one.queue},
  {title: 'State', value: one => one.state},
  {title: 'Slurm job', kind: 'number', value: one => one.slurm_job || ''},
  {title: 'Slurm state', value: one => one.slurm_state},
  {title: 'Granted', value: one => when(one.granted_at)},
  {title: 'Ends', value: one => when(one.ends_at)},
  {title: 'Workers', kind: 'number', value: one => number(one.workers)},
  {title: 'Reason', kind: 'wide quiet', value: one => one.reason},
];

export function allocationsPage(context) {
  const list = make('div'), notes = make('p', {className: 'message'});
  context.main.replaceChildren(make('h1', {textContent: 'Slurm allocations'}), notes, list);
  return {
    title: 'Allocations',
    targets: ['allocations'],
    answer(_, reply) {
      if (reply.error) throw new Error(reply.error.message);
      notes.textContent = reply.slurm_trouble;
      fill(list,
        section('Queues', table([...QUEUE_COLUMNS, ...queueActions(context.session)], reply.queues,
          'There is no allocation queue; rollctl alloc add makes one.')),
        section('Allocations', table([...ALLOCATION_COLUMNS, ...allocationActions(context.session)], reply.allocations,
          'rolld has requested no allocation.')));
    },
  };
}
