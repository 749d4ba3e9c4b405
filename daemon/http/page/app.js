// The dashboard: navigation, the token, and the connection that keeps the shown page up to date.
import {Refused, get, hasToken, make, setToken} from './base.js';
import {allocationsPage, nodesPage} from './cluster.js';
import {jobPage} from './job.js';
import {watch} from './live.js';
import {eventsPage, queuePage} from './queue.js';
import {sweepPage, sweepsPage} from './sweeps.js';
import {usagePage} from './usage.js';

const main = document.getElementById('main');
const status = document.getElementById('status');
let session = null;  // roll.session/1: the rights of the token
let shown = null;  // {page, end}: the page that is shown, and the function that ends its watch
let search = null;  // the search field of the page

function say(text, bad, why = '') {
  status.textContent = text;
  status.title = why;
  status.className = bad ? 'bad' : 'good';
}

function tokenPage() {
  leave();
  session = null;
  say('no token', true);
  const input = make('input', {type: 'password', autocomplete: 'current-password', size: 40, id: 'token'});
  const form = make('form', {className: 'token'}, make('label', {htmlFor: 'token', textContent: 'Token'}), input,
    make('button', {textContent: 'Open', className: 'primary'}));
  form.addEventListener('submit', event => {
    event.preventDefault();
    setToken(input.value.trim());
    show();
  });
  main.replaceChildren(make('h1', {textContent: 'Enter your token'}),
    make('p', {className: 'quiet', textContent: '`rollctl web` prints the token. It is also in the file web.token of ' +
      'rolld\'s state directory. `rollctl token create` makes further tokens.'}), form);
  input.focus();
}

function pageOf(context, path, options) {
  const job = path.match(/^\/job\/(\d+)(?:\/(log|history|file))?$/);
  if (job) return jobPage(context, job[1], job[2] || '');
  const sweep = path.match(/^\/sweep\/(\d+)$/);
  if (sweep) return sweepPage(context, sweep[1]);
  const page = {'/nodes': nodesPage, '/allocations': allocationsPage, '/events': eventsPage, '/sweeps': sweepsPage,
    '/usage': usagePage}[path] || queuePage;
  return page(context, options);
}

function leave() {
  if (!shown) return;
  shown.end();
  if (shown.page.stop) shown.page.stop();
  shown = null;
}

function mark(path) {
  const place = path.startsWith('/job/') ? '/' : path.startsWith('/sweep/') ? '/sweeps' : path;
  for (const anchor of document.querySelectorAll('header nav a'))
    if (anchor.hash === '#' + place) anchor.setAttribute('aria-current', 'page');
    else anchor.removeAttribute('aria-current');
}

function show() {
  leave();
  const [path, query] = (location.hash.slice(1) || '/').split('?');
  mark(path);
  if (!hasToken()) return tokenPage();
  open(path, new URLSearchParams(query || ''));
}

// Requests the rights of the token until the server answers or another page is shown. The page's
// stream is requested at the same time, so that its first answers do not wait for this answer.
async function readSession(mine) {
  while (mine === shown && !session) {
    try {
      const told = await get('session');
      if (mine !== shown) return;
      session = told;
    } catch (error) {
      if (mine !== shown) return;
      if (error instanceof Refused) return tokenPage();
      say(error.message, true);
      await new Promise(resolve => setTimeout(resolve, 2000));
    }
  }
  if (session) document.getElementById('user').textContent = session.read_only ? `${session.user}, read only` : session.user;
}

function open(path, options) {
  const failed = error => {
    if (error instanceof Refused) tokenPage();
    else if (mine === shown) say(error.message, true);
  };
  const mine = {page: null, good: ['live', false]};  // `good`: arguments of say() if there is no error
  shown = mine;
  const known = readSession(mine);
  const context = {main, get session() { return session; }, say, failed, search: null,
    isShown: () => mine === shown};
  const page = mine.page = pageOf(context, path, options);
  search = context.search;
  document.title = `${page.title} · Roll`;
  mine.end = watch(page.targets, {
    state: (...said) => {
      if (!said[1]) mine.good = said;
      say(...said);
    },
    live: yes => { if (page.live && mine === shown) page.live(yes).catch(failed); },
    refused: tokenPage,
    answer: async (i, answer) => {
      try {
        await known;
        if (mine !== shown) return;
        await page.answer(i, answer);
        if (mine === shown && !answer.error) say(...mine.good);
      } catch (error) {
        failed(error);
      }
    },
  });
}

window.addEventListener('hashchange', show);
document.addEventListener('keydown', event => {
  if (event.key !== '/' || !search || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
  event.preventDefault();
  search.focus();
});
show();
