// Receives answers of the server as they change (server-sent events), and connects again after a
// loss. EventSource cannot send the token in a header, so the events are read with fetch().
import {Refused, send} from './base.js';

const SILENCE_MS = 40000;  // the server sends something every 15 seconds
const WAIT_MS = [500, 1000, 2000, 5000];

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

// Watches the answers to the GET requests for `targets`, paths below /api/v1/. Calls
// `on.answer(i, answer)` for each change, `on.state(text, bad)` when the connection changes, and
// `on.refused()` if the token is not valid. Returns a function that ends the watch.
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
      await readEvents(response, (i, answer) => { if (!stopped) on.answer(i, answer); }, alive);
    } finally {
      clearTimeout(timer);
      abort.signal.removeEventListener('abort', end);
    }
  }

  async function run() {
    while (!stopped) {
      try {
        await once();
      } catch (error) {
        if (stopped) return;
        if (error instanceof Refused) return on.refused();
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
