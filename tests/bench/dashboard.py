#!/usr/bin/env python3
"""The dashboard under load: first paint with many jobs, and the processor time of many viewers.

    tests/bench/dashboard.py [--bin build/release/bin] [--jobs 10000] [--viewers 1000] [--seconds 20]

`paint` opens the page of jobs in Chromium in a fresh tab, five times: the first paint, and the time until the rows are
there. `viewers` sends what browsers with one token at one address send to open the page of jobs, keeps their streams,
and measures the processor time of roll-web and rolld: while nothing changes, and while a job is submitted each second,
which changes the list of every viewer. `log_viewers` does the same for the log of a running job, to which a line is
added each second; each viewer reads the log once and gets the lines from its stream. Both end with an error if a
request is refused. Prints, with the load of the machine; judges nothing.
"""
import argparse
import http.client
import json
import os
import pathlib
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/e2e'))
from bench_parts import processor_s  # noqa: E402
from browser import Browser  # noqa: E402

TARGETS = ('jobs?limit=100&fields=id,name,kind,user,state,held,cancelling,priority,started_at,ended_at,submitted_at,'
           'reason,waiting,nodes,array,progress&reverse=1&fold=1 totals')


class Site:
    """A rolld with a worker and roll-web, and queued jobs."""

    def __init__(self, programs, folder, jobs):
        self.programs, self.folder = programs, folder
        self.env = dict(os.environ, ROLL_DIR=f'{folder}/state', HOME=folder, XDG_RUNTIME_DIR=folder, NO_COLOR='1')
        self.ctl('up', '--slots', '2')
        for first in range(0, jobs, 1000):
            path = f'{folder}/jobs-{first}.yaml'
            with open(path, 'w', encoding='utf-8') as file:
                for i in range(first, min(jobs, first + 1000)):
                    file.write(json.dumps({'name': f'job-{i}', 'kind': 'command', 'command': ['true'], 'hold': True,
                                           'output': f'{folder}/out/{i}'}) + '\n---\n')
            self.ctl('submit', path)
        self.web = subprocess.Popen([programs / 'roll-web', '--dir', f'{folder}/state', '--listen', '127.0.0.1:0'],
                                    env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.web.stdout.readline().strip().rstrip('/').rsplit(':', 1)[1])
        self.token = pathlib.Path(folder, 'state/web.token').read_text(encoding='ascii').strip()
        self.rolld = int(pathlib.Path(folder, 'state/rolld.pid').read_text(encoding='ascii').split()[0])

    def ctl(self, *arguments):
        return subprocess.run([self.programs / 'rollctl', *arguments], env=self.env, check=True, capture_output=True,
                              text=True, cwd=self.folder).stdout

    def close(self):
        self.web.terminate()
        self.web.wait()
        self.ctl('down', '--now')


def paint(site):
    paints, rows = [], []
    with Browser(site.folder) as browser:
        page = browser.page()
        page.open(f'http://127.0.0.1:{site.port}/')
        page.wait_text('Enter your token')
        page.run(f'localStorage.setItem("roll-token", {json.dumps(site.token)})')
        for _ in range(5):
            page = browser.page()
            page.call('Page.addScriptToEvaluateOnNewDocument', source='''new MutationObserver(() => {
                if (!window.rowsAt && document.querySelector("tbody tr")) window.rowsAt = performance.now();
            }).observe(document, {childList: true, subtree: true});''')
            page.open(f'http://127.0.0.1:{site.port}/')
            rows.append(page.wait('window.rowsAt'))
            paints.append(page.wait('performance.getEntriesByName("first-contentful-paint")[0].startTime'))
    print(f'first paint {statistics.median(paints):.0f} ms ({min(paints):.0f} to {max(paints):.0f}), '
          f'rows after {statistics.median(rows):.0f} ms ({min(rows):.0f} to {max(rows):.0f})')


def get(site, connection, path):
    """Reads a page or an answer. Fails if the server refuses it."""
    connection.request('GET', path, headers={'Authorization': f'Bearer {site.token}'})
    reply = connection.getresponse()
    body = reply.read()
    if reply.status != 200:
        raise SystemExit(f'{path}: status {reply.status}: {body[:200]}')


def open_viewers(site, count, targets):
    """Opens a page as `count` browsers do. Returns a selector of their streams, and a connection of each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * count + 100), hard), hard))
    files = ['/', *(f'/{path.name}' for path in (ROOT / 'daemon/http/page').glob('*.[jc]s*'))]
    selector, connections = selectors.DefaultSelector(), []
    request = (f'GET /api/v1/stream?watch={quote(targets)} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n'
               f'Authorization: Bearer {site.token}\r\n\r\n').encode()
    for _ in range(count):
        connections.append(http.client.HTTPConnection('127.0.0.1', site.port))
        for path in (*files, '/api/v1/session'):
            get(site, connections[-1], path)
        one = socket.create_connection(('127.0.0.1', site.port))
        one.sendall(request)
        one.setblocking(False)
        selector.register(one, selectors.EVENT_READ)
    return selector, connections


def watch(site, selector, seconds, change=False):
    """Reads all streams for this time. Returns (shares of a core of roll-web and of rolld, MB a second)."""
    began, received, changed = time.monotonic(), 0, 0
    before = processor_s(site.web.pid), processor_s(site.rolld)
    while time.monotonic() - began < seconds:
        if change and time.monotonic() - began > changed:
            changed += 1
            site.ctl('submit', '--hold', '--', 'true')
        for key, _ in selector.select(0.01):
            chunk = key.fileobj.recv(1 << 20)
            if not chunk or (chunk.startswith(b'HTTP/1.1') and not chunk.startswith(b'HTTP/1.1 200')):
                raise SystemExit(f'a stream was refused or has ended: {chunk[:200]}')
            received += len(chunk)
    took = time.monotonic() - began
    after = processor_s(site.web.pid), processor_s(site.rolld)
    return [100 * (b - a) / took for a, b in zip(before, after)], received / took / 1e6


def viewers(site, count, seconds):
    selector, connections = open_viewers(site, count, TARGETS)
    watch(site, selector, 5)  # the first answers
    for name, change in (('nothing changes', False), ('a job is submitted each second', True)):
        (web, rolld), rate = watch(site, selector, seconds, change)
        print(f'{count} viewers, {name}: roll-web {web:.1f} % of a core, rolld {rolld:.1f} %, {rate:.1f} MB/s')
    close(selector, connections)


def log_viewers(site, count, seconds):
    job = site.ctl('submit', '--parsable', '--', 'sh', '-c', 'while :; do date; sleep 1; done').split()[0]
    while json.loads(site.ctl('show', job, '--json'))['job']['state'] != 'running':
        time.sleep(0.2)
    selector, connections = open_viewers(site, count, f'jobs/{job} jobs/{job}/log?rank=0')
    for connection in connections:
        get(site, connection, f'/api/v1/jobs/{job}/log?rank=0&attempt=1')
    watch(site, selector, 5)  # the first answers
    (web, rolld), rate = watch(site, selector, seconds)
    print(f"{count} viewers of a running job's log: roll-web {web:.1f} % of a core, rolld {rolld:.1f} %, "
          f'{rate:.1f} MB/s')
    close(selector, connections)


def close(selector, connections):
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    for one in connections:
        one.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    parser.add_argument('--jobs', type=int, default=10_000)
    parser.add_argument('--viewers', type=int, default=1000)
    parser.add_argument('--seconds', type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='roll-dashboard-') as folder:
        site = Site(options.bin.resolve(), folder, options.jobs)
        try:
            print(f'{options.jobs} queued jobs, load {os.getloadavg()[0]:.1f}')
            paint(site)
            viewers(site, options.viewers, options.seconds)
            log_viewers(site, options.viewers, options.seconds)
            print(f'load {os.getloadavg()[0]:.1f}')
        finally:
            site.close()


if __name__ == '__main__':
    main()
