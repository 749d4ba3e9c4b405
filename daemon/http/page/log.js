// The log of one rank: its end first, earlier parts on request, and new lines as they are written.
// A stream sends the new lines of rank 0 in the newest attempt, so that one read of the file serves
// all viewers. The page polls all other logs, and also this log if there is no stream.
import {get, make, number} from './base.js';

const PART = 256 * 1024;  // bytes of a part
const KEPT = 4 * 1024 * 1024;  // bytes of the log that the page keeps

export function logPart(id) {
  const rank = make('input', {type: 'number', min: 0, value: 0, ariaLabel: 'Rank'});
  const attempt = make('select', {ariaLabel: 'Attempt'});
  const search = make('input', {type: 'search', placeholder: 'only lines with ...', ariaLabel: 'Search the log', size: 20});
  const follow = make('input', {type: 'checkbox', checked: true, id: 'follow'});
  const earlier = make('button', {type: 'button', textContent: 'Load earlier lines', hidden: true});
  const note = make('span', {className: 'quiet'});
  const log = make('pre', {tabIndex: 0, ariaLabel: 'Log', className: 'log'});
  const root = make('div', {}, make('div', {className: 'filters'}, make('label', {}, 'Rank', rank), attempt, search,
    make('label', {}, follow, 'Follow'), earlier, note), log);
  let parts = [], text = '', first = 0, next = null, size = 0, newest = null, known = 0;
  let live = false;  // true while a stream sends new lines

  function show() {
    const words = search.value.toLowerCase();
    const lines = words ? text.split('\n').filter(line => line.toLowerCase().includes(words)) : null;
    log.textContent = lines ? lines.join('\n') : text;
    earlier.hidden = first === 0;
    note.textContent = lines ? `${number(lines.length)} ${lines.length === 1 ? 'line' : 'lines'}` : next === null ? '' : `${number(size)} bytes`;
    if (follow.checked) log.scrollTop = log.scrollHeight;
  }

  function address(from) {
    const query = new URLSearchParams({rank: rank.value || '0'});
    if (attempt.value) query.set('attempt', attempt.value);
    if (from !== null) query.set('from', from);
    return `jobs/${id}/log?${query}`;
  }

  async function read() {
    const asked = address(next);
    const part = await get(asked).catch(error => {
      if (next === null) note.textContent = error.message;
      return null;
    });
    if (part && asked === address(next)) append(part);
  }

  // Adds a part that follows the shown text. Any other part replaces the shown text: it is the first part, or the file
  // was written anew.
  function append(part) {
    if (next === null || part.from !== next) parts = [];
    if (next === part.next && parts.length) return;
    parts.push(part);
    while (parts.length > 1 && part.next - parts[0].from > KEPT) parts.shift();
    first = parts[0].from;
    text = parts.map(one => one.text).join('');
    next = part.next;
    size = part.size;
    show();
  }

  const isStreamed = () => live && next !== null && Number(rank.value) === 0 && attempt.value === newest;

  // Takes what the stream sends: new text, or an error, which read() shows.
  async function take(part) {
    if (part.error || !isStreamed() || String(part.attempt) !== newest) return;
    const missed = part.from - next;
    if (missed > 0 && missed <= PART) return read();
    if (missed < 0 && part.size >= next) {
      if (part.next > next) await read();
      return;
    }
    append(part);
  }

  async function readEarlier() {
    const from = Math.max(0, first - PART);
    const part = await get(address(from));
    // Offsets count bytes. Drop the bytes that the page already has.
    const bytes = new TextEncoder().encode(part.text).slice(0, first - from);
    parts.unshift({from, text: new TextDecoder().decode(bytes)});
    first = from;
    text = parts.map(one => one.text).join('');
    follow.checked = false;
    show();
    log.scrollTop = 0;
  }

  function again() {
    [parts, text, first, next] = [[], '', 0, null];
    log.textContent = '';
    note.textContent = '';
    read();
  }
  rank.addEventListener('change', again);
  attempt.addEventListener('change', again);
  search.addEventListener('input', show);
  follow.addEventListener('change', show);
  earlier.addEventListener('click', () => readEarlier().catch(error => { note.textContent = error.message; }));
  log.addEventListener('scroll', () => {
    if (log.scrollHeight - log.scrollTop - log.clientHeight > 60) follow.checked = false;
  });

  return {root, show(job) {
    if (job.attempt === 0) note.textContent = 'The job has not started yet.';
    if (job.attempt === known) return;
    const old = attempt.value;
    known = job.attempt;
    attempt.replaceChildren(...Array.from({length: Math.max(1, known)}, (_, i) =>
      make('option', {value: i + 1, textContent: `attempt ${i + 1}`})).reverse());
    attempt.value = old && old !== newest ? old : String(Math.max(1, known));
    newest = String(known);
    if (old && attempt.value !== old) again();
  }, targets: [`jobs/${id}/log?rank=0`], take, async read(job) {
    if (job.attempt > 0 && !isStreamed()) await read();
  }, async live(yes) {
    live = yes;
    if (yes && next !== null) await read();  // the text that was added while there was no stream
  }};
}
