// Receives answers of the server as they change (server-sent events), and connects again after a
// loss. EventSource cannot send the token in a header, so the events are read with fetch().
import {Refused, send} from './base.js';

const SILENCE_MS = 40000;  // the server sends something every 15 seconds
const WAIT_MS = [500, 1000, 2000, 5000];
const POLL_MS = 5000;  // pause between two reads of the answers while the server has no stream left
const POLLS = 6;  // number of reads before the next attempt to get a stream

// Calls `take` with each complete event of a stream: {index, answer}.
async function readEvents(response, take, alive) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    alive();
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const lines = event.split('\n');
      const index = lines.find(line => line.startsWith('event: '));
      if (!index) continue;
      const data = lines.filter(line => line.startsWith('data: ')).map(line => line.slice(6));
      take(Number(index.slice(7)), JSON.parse(data.join('\n')));
    }
  }
}

// Returns the text of the answer to a GET request, as a stream sends it: an answer that is an error
// has the field `error`.
async function look(target, signal) {
  try {
    return await (await send(target, {signal})).text();
  } catch (error) {
    if (!error.answer || error.status === 429) throw error;
    return JSON.stringify(error.answer);
  }
}

function isLog(target) {
  return target.split('?')[0].endsWith('/log');
}

// Watches the answers to the GET requests for `targets`, paths below /api/v1/. If the server has no
// stream left, reads the answers every POLL_MS, except logs. Calls `on.answer(i, answer)` for each
// change, `on.state(text, bad, why)` when the connection changes, `on.live(yes)` when a stream begins
// or ends, and `on.refused()` if the token is not valid. Returns a function that ends the watch.
export function watch(targets, on) {
  const abort = new AbortController();
  let stopped = false, failures = 0;

  async function once() {
    let timer = 0;
    const one = new AbortController();
    const end = () => one.abort();
    abort.signal.addEventListener('abort', end);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE_MS);
    };
    try {
      alive();
      const response = await send('stream?watch=' + encodeURIComponent(targets.join(' ')), {signal: one.signal});
      failures = 0;
      if (!stopped) on.state('live', false);
      if (!stopped) on.live(true);
      await readEvents(response, (i, answer) => { if (!stopped) on.answer(i, answer); }, alive);
    } finally {
      on.live(false);
      clearTimeout(timer);
      abort.signal.removeEventListener('abort', end);
    }
  }

  async function poll(why) {
    const texts = [];
    for (let i = 0; i < POLLS && !stopped; ++i) {
      on.state(`no stream left; reads every ${POLL_MS / 1000} s`, false, why);
      for (const [index, target] of targets.entries()) {
        if (isLog(target)) continue;
        const text = await look(target, abort.signal);
        if (stopped) return;
        if (text !== texts[index]) on.answer(index, JSON.parse(texts[index] = text));
      }
      failures = 0;
      await new Promise(resolve => setTimeout(resolve, POLL_MS));
    }
  }

  async function run() {
    let full = '';  // the server's sentence if it has no stream left
    while (!stopped) {
      try {
        await (full ? poll(full) : once());
        full = '';
      } catch (error) {
        if (stopped) return;
        if (error instanceof Refused) return on.refused();
        full = error.answer?.error?.limit === 'streams' ? error.message : '';
        if (full) continue;
        if (error.status === 429) {
          const seconds = Math.max(1, error.wait);
          on.state(`too many requests; tries again in ${seconds} s`, true, error.message);
          await new Promise(resolve => setTimeout(resolve, 1000 * seconds));
          continue;
        }
        if (!(error instanceof TypeError) && error.name !== 'AbortError') on.state(error.message, true);
      }
      if (stopped) return;
      if (failures > 0) on.state('connection lost, trying again', true);
      await new Promise(resolve => setTimeout(resolve, WAIT_MS[Math.min(failures, WAIT_MS.length - 1)]));
      ++failures;
    }
  }
  run();
  return () => { stopped = true; abort.abort(); };
}
