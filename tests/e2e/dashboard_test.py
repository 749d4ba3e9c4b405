#!/usr/bin/env python3
"""The dashboard in a real Chromium: each page in both sizes and colours, hostile names, actions, live updates.

ROLL_PICTURES=DIR: also writes a screenshot of each page there.
"""
import http.client
import itertools
import json
import os
import pwd
import re
import signal
import subprocess
import time
import unittest
from urllib.parse import quote, unquote

import web_test
from browser import Browser
from harness import BIN, RollTest, wait_until

HOSTILE = '<img src=x onerror=alert(1)>'
PICTURES = os.environ.get('ROLL_PICTURES')
# Each trial writes metrics, like a training job: a loss, a set's loss, a task's score and phases.
TRIAL = '''i=0; while [ $i -lt 40 ]; do i=$((i + 1));
echo "{\\"step\\": $i, \\"loss\\": $LOSS.$((999 - i)), \\"valid_loss/HOSTILE\\": 2.$i, \\"task_acc/HOSTILE\\": 0.$i,
\\"tokens_per_second\\": 9$i, \\"wall_s\\": 0.1, \\"phases\\": {\\"forward\\": {\\"mean\\": 0.04, \\"max\\": 0.05}}}" \\
| tr -d '\\n' >> $ROLL_OUTPUT/metrics.jsonl; echo >> $ROLL_OUTPUT/metrics.jsonl; done
echo "HOSTILE"; [ $LOSS != 3 ] || exit 3; [ $LOSS != 1 ] || sleep 600'''.replace('HOSTILE', HOSTILE)
PAGES = {  # address -> a text that the page shows once it is complete
    '#/': 'waiter', '#/?state=all': 'search', '#/job/1': 'Phases of a step', '#/job/1/log': HOSTILE,
    '#/job/1/history': 'Attempts', '#/job/1/file': 'TRIAL_OF', '#/job/4': 'Why it waits', '#/job/5': 'Pipeline',
    '#/sweeps': 'search', '#/sweep/1': 'Trials', '#/usage': 'Share and limits', '#/nodes': 'ready',
    '#/allocations': 'no allocation queue', '#/events': 'attempt'}
# Words that the dashboard compares or parses; all other texts of a reply are replaced by the hostile one.
WORDS = re.compile(r'queued|running|done|failed|cancelled|ended|\d{4}-\d\d-\d\dT.*|train|command|min|max|roll\..*')


def hostile(value):
    """Returns the value of a reply with the hostile text instead of each free text."""
    if isinstance(value, dict):
        return {key: hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return HOSTILE if isinstance(value, str) and not WORDS.fullmatch(value) else value


# Slurm's commands with one file per job: Slurm's queue says that each job is pending until it is cancelled. The files
# are renamed into place, because squeue may read them at the same time.
SLURM = {
    'sbatch': """cat > /dev/null; n=$(($(ls | wc -l) + 1))
        for one; do case $one in --comment=*)
            echo "PENDING|Resources|N/A|N/A|1||${one#--comment=}" > ../$$; mv ../$$ $n;; esac; done
        echo $n""",
    'squeue': 'ls | while read one; do echo "$one|$(cat $one)"; done',
    'scancel': 'for one; do :; done; sed s/PENDING/CANCELLED/ $one > ../$$ && mv ../$$ $one'}


class Dashboard(RollTest):
    serve, ask, api = web_test.Web.serve, web_test.Web.ask, web_test.Web.api

    def setUp(self):
        super().setUp()
        self.browser, self.webs = None, []
        os.makedirs(f'{self.top}/slurm/jobs')  # for make_slurm()
        self.env['PATH'] = f'{self.top}/slurm:{self.env["PATH"]}'
        # Allocation queues need an endpoint.
        self.ctl('up', '--slots', 4, '--endpoint', 'tcp://127.0.0.1:*', '--slurm-poll', 1)
        self.serve()

    def tearDown(self):
        if self.browser:
            self.browser.close()
        for web in self.webs:
            web.kill()
            web.communicate()
        super().tearDown()

    def open(self, address='', token=None, **look):
        """Opens a page in a new tab, with the token that a person would have entered."""
        if not self.browser:
            self.browser = Browser(self.top)
        page = self.browser.page(**look)
        self.root = f'http://127.0.0.1:{self.port}/'
        page.open(self.root)
        page.wait_text('Enter your token')
        page.run(f'document.querySelector("#token").value = {json.dumps(token or self.token)}')
        page.click('Open')
        page.wait_text('longest wait')
        self.go(page, address)
        return page

    def go(self, page, address):
        page.run(f'location.hash = {json.dumps(address or "#/")}')

    def make_jobs(self):
        """A sweep of trials 1 to 3 (running, failed, done), a held job 4, a held training job 5 and an array 6-25."""
        self.ctl('sweep', self.write('sweep.yaml', json.dumps({
            'name': 'search', 'kind': 'command', 'command': ['sh', '-c', TRIAL], 'env': {'TRIAL_OF': 'a test'},
            'sweep': {'grid': {'env.LOSS': [1, 3, 2]}}})))
        self.submit('--name', 'waiter', '--hold', '--', 'true')
        self.corpus()
        self.submit('--hold', self.train_job(parallel={'pp': 2}))
        self.submit('--name', 'array', '--array', '0-19%1', '--', 'sleep', '600')
        wait_until(lambda: self.show(2)['state'] == 'failed' and self.show(3)['state'] == 'done', 'ended trials')

    def test_each_page_is_clean_in_both_sizes_and_colours(self):
        self.make_jobs()
        page = self.open()
        for address, words in PAGES.items():
            self.go(page, address)
            page.wait_text(words)
            page.wait_text('live')
            for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
                with self.subTest(address=address, width=width, dark=dark):
                    page.look(width, 900 if width == 1280 else 844, dark)
                    self.assertLessEqual(page.width(), width, 'the page is wider than its window')
                    self.assertEqual(page.low_contrasts(), [])
                    if PICTURES:
                        name = re.sub(r'\W+', '-', address).strip('-') or 'jobs'
                        page.picture(f'{PICTURES}/{name}-{width}-{"dark" if dark else "light"}.png')
        self.assertEqual(page.errors, [])
        self.go(page, '#/job/5')
        page.wait('document.querySelectorAll(".schedule rect").length > 8')
        page.wait_text('Layout\npp 2, schedule auto, micro_batch_size 2')
        self.go(page, '#/job/1')
        page.wait(f'document.body.innerText.includes({json.dumps("Validation loss of " + HOSTILE)})')

    def test_the_usage_page_says_how_many_jobs_it_leaves_out(self):
        for _ in range(21):
            self.submit('--hold', '--', 'true')
        page = self.open('#/usage')
        page.wait_text('Queued jobs that are not shown: 1')

    def test_a_sweep_has_one_point_for_each_value_of_a_parameter(self):
        metrics = 'echo "{\\"step\\": 1, \\"loss\\": $A$B}" > $ROLL_OUTPUT/metrics.jsonl'
        self.ctl('sweep', self.write('sweep.yaml', json.dumps({
            'name': 'search', 'kind': 'command', 'command': ['sh', '-c', metrics],
            'sweep': {'grid': {'env.A': [1, 2], 'env.B': [3, 4, 5]}}})))
        self.assertEqual(self.ctl('wait', '1-6').returncode, 0)
        page = self.open('#/sweep/1')
        page.wait_text('100 %')
        self.assertEqual(page.run('[...document.querySelectorAll("figure")].map(one => [one.innerText.split("\\n")[0], '
                                  'one.querySelector("b").textContent, '
                                  'one.querySelector(".curve").getAttribute("points").split(" ").length])'),
                         [['best loss by env.A', '13', 2], ['best loss by env.B', '13', 3]])

    def test_hostile_names_are_shown_as_text_on_each_page(self):
        self.make_jobs()
        page = self.open()

        def answers(url):
            path = url.split('/api/v1/')[1]
            if path.startswith('session'):
                return None
            if not path.startswith('stream'):
                status, body = self.ask('/api/v1/' + path)
                return ('application/json', json.dumps(hostile(json.loads(body)))) if status == 200 else None
            watched = unquote(path.split('watch=')[1]).split(' ')
            replies = [self.api(target) for target in watched]
            for reply in replies:
                for attempt in reply.get('job', reply).get('attempts', []):
                    attempt['requests'] = [{'what': 'evaluate', 'value': 0, 'by': 'ann', 'step': 0, 'answered': False}]
                if 'job' in reply:
                    reply['job']['exports'] = [{'step': 5, 'directory': '/runs'}]
            return 'text/event-stream', ''.join(
                f'event: {i}\ndata: {json.dumps(hostile(reply))}\n\n' for i, reply in enumerate(replies))

        page.answer(answers)
        for address in PAGES:
            page.open('about:blank')
            page.open(self.root + address)
            if address != '#/allocations':  # there is no allocation that could have a name
                page.wait_text(HOSTILE)
            if address == '#/job/1/history':
                page.wait_text('Requests')
                page.wait_text('Exports of checkpoints')
            self.assertEqual(page.run('document.querySelectorAll("img, script:not([src])").length'), 0, address)
        self.assertEqual([error for error in page.errors if 'Failed to load' not in error], [])

    def test_a_job_is_cancelled_after_a_confirmation_and_not_without_one(self):
        job = self.submit('--name', 'victim', '--', 'sleep', '600')
        page = self.open(f'#/job/{job}')
        wait_until(lambda: self.show(job)['state'] == 'running', 'the job')
        page.wait_text('victim')
        page.click('Cancel')
        page.wait_text(f'Cancel job {job}?')
        self.assertEqual(page.run('document.activeElement.textContent'), 'Keep it', 'the safe button has the focus')
        page.press('Enter')
        page.wait('!document.querySelector("dialog")')
        page.click('Cancel')
        page.wait_text(f'Cancel job {job}?')
        page.press('Escape')
        page.wait('!document.querySelector("dialog")')
        time.sleep(1)  # a request that was sent after all would have arrived
        shown = self.show(job)
        self.assertEqual((shown['state'], shown['cancelling']), ('running', False), 'declined')
        page.click('Cancel')
        page.click('Cancel the job')
        self.assertEqual(self.wait(job)['state'], 'cancelled')
        page.wait_text('cancelled from the dashboard')
        page.click('Submit again')
        page.wait_text('as a new job?')
        page.click('Submit')
        page.wait_text(f'Job {job + 1}: victim')
        wait_until(lambda: self.show(job + 1)['state'] == 'running', 'the job again')
        held = self.submit('--name', 'waiter', '--hold', '--', 'sleep', '600')
        self.go(page, f'#/job/{held}')
        page.click('Priority')
        page.run('document.querySelector("dialog input").value = "7"')
        page.click('Change')
        page.wait_text('Priority\n7')
        page.click('Priority')
        page.run('document.querySelector("dialog input").value = "99999999999"')
        page.click('Change')
        page.wait('document.querySelector("dialog .question")?.innerText.includes("priority")')
        page.click('Close')
        page.click('Release')
        page.click('Release')
        wait_until(lambda: self.show(held)['state'] == 'running', 'the released job')
        self.assertEqual([error for error in page.errors if 'status of 400' not in error], [])

    def test_the_operator_drains_nodes_and_removes_allocation_queues(self):
        self.ctl('alloc', 'add', 'night', '--time', '30m')
        page = self.open('#/nodes')
        page.wait_text('ready')
        node = self.json('nodes')['nodes'][0]['node']
        page.click('Drain')
        page.wait_text(f'Drain node {node}?')
        page.click('Keep it')
        page.wait('!document.querySelector("dialog")')
        time.sleep(1)  # a request that was sent after all would have arrived
        self.assertFalse(self.json('nodes')['nodes'][0]['draining'], 'declined')
        page.click('Drain')
        page.click('Drain the node')
        page.wait_text('draining')
        self.assertTrue(self.json('nodes')['nodes'][0]['draining'])
        page.click('Undrain')
        page.click('Undrain the node')
        page.wait_text('ready')
        self.assertFalse(self.json('nodes')['nodes'][0]['draining'])
        self.go(page, '#/allocations')
        page.wait_text('night')
        for title, state in (('Pause', 'paused'), ('Resume', 'open')):
            page.click(title)
            page.click(f'{title} the queue')
            wait_until(lambda state=state: self.json('alloc', 'list')['queues'][0]['state'] == state, state)
            page.wait_text(state)
        page.click('Remove')
        page.click('Remove the queue')
        page.wait_text('There is no allocation queue')
        self.assertEqual(self.json('alloc', 'list')['queues'], [])
        self.assertEqual(page.errors, [])

    def make_slurm(self):
        for name, lines in SLURM.items():
            path = f'{self.top}/slurm/{name}'
            self.write(path, f'#!/bin/sh\ncd {self.top}/slurm/jobs && {lines}\n')
            os.chmod(path, 0o755)

    def test_the_operator_closes_and_cancels_single_allocations(self):
        self.make_slurm()
        self.ctl('alloc', 'add', 'night', '--time', '30m', '--gpus', '1')
        job = self.submit('--gpus', '1', '--', 'true')

        def pending():
            return [one['id'] for one in self.json('alloc', 'list')['allocations']
                    if one['slurm_state'] == 'PENDING (Resources)']

        wait_until(lambda: pending() == [1], 'an allocation')
        page = self.open('#/allocations')
        page.wait_text('PENDING (Resources)')
        page.click('Cancel')
        page.wait_text('Cancel allocation 1?')
        page.click('Keep it')
        page.wait('!document.querySelector("dialog")')
        time.sleep(1)  # a request that was sent after all would have arrived
        self.assertEqual(pending(), [1], 'declined')
        page.click('Cancel')
        page.click('Cancel the allocation')
        wait_until(lambda: pending() == [2], 'another allocation for the job')
        self.ctl('alloc', 'pause', 'night')  # no further allocation takes its place
        page.wait_text('paused')  # the page does not change any more while its button is pressed
        page.wait('document.querySelector("section:nth-of-type(2) tbody td").textContent == "2"')
        page.click('Close')
        page.wait_text('Close allocation 2?')
        page.click('Close the allocation')
        page.wait_text('rolld has requested no allocation.')
        self.assertEqual((pending(), self.show(job)['state']), ([], 'queued'))
        self.assertEqual([(one['data']['allocation'], one['data']['reason'])
                          for one in self.api('events?limit=1000')['events'] if one['kind'] == 'allocation_releasing'],
                         [(1, f'cancelled by {pwd.getpwuid(os.getuid()).pw_name}'),
                          (2, 'the allocation was closed by a user')])
        self.assertEqual(page.errors, [])

    def test_a_page_without_a_stream_reads_its_answers_and_says_so(self):
        streams = []
        self.addCleanup(lambda: [one.close() for one in streams])
        targets = [f'jobs?limit={i}' for i in range(1, 65)]

        def stream(target, token=None):
            """(status, Retry-After, body) of a stream; the body of a stream that is served is left out."""
            streams.append(http.client.HTTPConnection('127.0.0.1', self.port, timeout=30))
            streams[-1].request('GET', '/api/v1/stream?watch=' + quote(target, safe=''),
                                headers={'Authorization': f'Bearer {token or self.token}'})
            reply = streams[-1].getresponse()
            return reply.status, reply.getheader('Retry-After'), '' if reply.status == 200 else reply.read().decode()

        self.assertEqual({stream(target)[0] for target in targets}, {200})
        status, wait, body = stream('totals')
        self.assertEqual((status, wait), (429, '5'), body)
        self.assertIn('this token already watches 64 different lists of targets', body)
        self.assertEqual(stream(targets[0])[0], 200, 'a list that is watched already')
        other = self.json('token', 'create', '--scope', 'read', '--expires', '1h')['token']
        self.assertEqual(stream('totals', other)[0], 200, 'another token')
        page = self.open()
        page.wait_text('no stream left; reads every 5 s')
        self.assertIn('this token already watches 64', page.run('document.querySelector("#status").title'))
        self.submit('--name', 'newcomer', '--hold', '--', 'true')
        page.wait_text('newcomer')
        self.assertEqual(page.run('document.querySelector("#status").textContent'), 'no stream left; reads every 5 s')
        self.go(page, '#/job/9')
        page.wait_text('Job 9 does not exist')
        self.assertEqual([error for error in page.errors if 'status of 4' not in error], [])

    def test_the_viewers_of_a_log_get_what_is_added_from_one_stream(self):
        job = self.submit('--', 'sh', '-c', 'for i in $(seq 400); do echo "line $i"; sleep 0.1; done; exec sleep 600')
        page = self.open(f'#/job/{job}/log')
        page.wait_text('line 2\n')
        page.wait_text('live')
        reads = 'performance.getEntriesByType("resource").filter(one => one.name.includes("/log?")).length'
        before = page.run(reads)
        streams = [http.client.HTTPConnection('127.0.0.1', self.port, timeout=30) for _ in range(2)]
        texts = []
        for stream in streams:
            self.addCleanup(stream.close)
            stream.request('GET', '/api/v1/stream?watch=' + quote(f'jobs/{job} jobs/{job}/log?rank=0'),
                           headers={'Authorization': f'Bearer {self.token}'})
            reply, text = stream.getresponse(), ''
            self.assertEqual(reply.status, 200)
            while text.count('\n') < 30:
                line = reply.readline()
                self.assertTrue(line, 'the stream ended')
                if line == b'event: 1\n':
                    part = json.loads(reply.readline().removeprefix(b'data: '))
                    self.assertLess(len(part['text']), 1000, 'only what was added')
                    text += part['text']
            texts.append(text)
        for text in texts:
            self.assertRegex(text, r'\A(line \d+\n)+\Z')
        last = re.search(r'line (\d+)\n\Z', texts[1])[1]
        page.wait_text(f'line {last}\n')
        shown = page.run('document.querySelector("pre.log").textContent')
        count = shown.count('\n')
        self.assertEqual(shown, ''.join(f'line {i}\n' for i in range(1, count + 1)), 'nothing twice, nothing missing')
        self.assertLessEqual(page.run(reads), before + 1, 'once when the stream begins, and not every 3 s')
        self.assertEqual(page.errors, [])

    def test_a_client_with_too_many_requests_is_told_so(self):
        with open(os.path.join(self.state, 'rolld.yaml'), 'w', encoding='utf-8') as file:
            json.dump({'http': {'listen': '127.0.0.1:0', 'requests_per_second': 1}}, file)
        self.serve()
        page = self.open()
        status = 'document.querySelector("#status")'
        wait_until(lambda: self.ask('/api/v1/totals')[0] == 429, 'the limit')
        page.run(f"""new MutationObserver(() => (window.said ||= []).push({status}.textContent + {status}.title))
                     .observe({status}, {{childList: true, attributes: true}})""")
        pages = itertools.cycle(('#/nodes', '#/jobs'))

        def told():
            self.ask('/api/v1/totals')  # leaves no request for the page, unless the page opens a second later
            self.go(page, next(pages))
            return page.run('(window.said || []).some(one => one.includes("too many requests; tries again in 1 s") && '
                            'one.includes("allowed: 1 a second"))')
        wait_until(told, 'the page to tell the limit')
        page.wait('window.said.at(-1).startsWith("live")')
        self.assertFalse(page.run('window.said.some(one => one.includes("no stream left"))'))

    def test_the_history_of_a_job_shows_its_checkpoints_and_its_exports(self):
        job = self.submit('--name', 'trained', '--hold', '--', 'true')
        page = self.open()

        def answers(url):
            """Answers as rolld does after a training: the job has checkpoints and an export."""
            path = url.split('/api/v1/')[1]
            if path.startswith(f'jobs/{job}/metrics'):
                return 'application/json', '{"rows": [{"schema": "roll.metrics/1", "schedule": "zb-h1"}]}'
            if not path.startswith('stream'):
                return None
            reply = self.api(f'jobs/{job}')
            saved = {folder: [{'step': step, 'directory': f'/runs/a/{folder}/step-{step}'} for step in steps]
                     for folder, steps in (('checkpoints', (10, 20)), ('exports', (5, 15)))}
            reply['job'].update(saved, kind='train', attempt=1, progress=None, export_job=77, spec={
                'parallel': {'dp': 2, 'pp': 2, 'zero': 1}, 'train': {'micro_batch_size': 4}},
                                exported='/runs/a/export/hf')
            return 'text/event-stream', f'event: 0\ndata: {json.dumps(reply)}\n\n'

        page.answer(answers)
        self.go(page, f'#/job/{job}/history')
        page.wait_text('Made by')
        for title, folder, steps in (('Checkpoints', 'checkpoints', (20, 10)),
                                     ('Exports of checkpoints', 'exports', (15, 5))):
            rows = page.run('[...document.querySelectorAll("section")].filter(one => one.querySelector("h2")?.'
                            f'textContent === "{title}").flatMap(one => [...one.querySelectorAll("tbody tr")].map('
                            'row => [...row.children].map(cell => cell.textContent)))')
            self.assertEqual(rows, [[str(step), f'/runs/a/{folder}/step-{step}'] for step in steps])
        self.assertIn('/runs/a/export/hf', page.run('document.body.innerText'))
        self.assertEqual(page.run('[...document.querySelectorAll("dd a")].find(one => one.hash === "#/job/77")'
                                  '.textContent'), 'job 77')
        self.go(page, f'#/job/{job}')
        page.wait_text('Layout\ndp 2, pp 2, zero 1, zb-h1, micro_batch_size 4')

    def test_buttons_are_left_out_where_the_token_may_not_use_them(self):
        job = self.submit('--name', 'victim', '--', 'sleep', '600')
        reader = self.json('token', 'create', '--scope', 'read', '--expires', '1h', '--note', 'ci')['token']
        page = self.open(f'#/job/{job}', token=reader)
        page.wait_text('Job 1: victim')
        self.assertEqual(page.run('document.querySelectorAll("main button").length'), 0)
        self.ctl('alloc', 'add', 'night', '--time', '30m')
        for address, words in (('#/nodes', 'ready'), ('#/allocations', 'night')):
            self.go(page, address)
            page.wait_text(words)
            self.assertEqual(page.run('document.querySelectorAll("main button").length'), 0, address)
        self.go(page, f'#/job/{job}/log')
        page.wait_text('Follow')
        self.assertEqual([error for error in page.errors if 'Failed to load' not in error], [])

    def test_a_stream_sends_changes_until_its_token_is_revoked(self):
        made = self.json('token', 'create', '--scope', 'read', '--expires', '1h', '--note', 'ci')
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request('GET', '/api/v1/stream?watch=jobs%3Ffields%3Did+whoami',
                           headers={'Authorization': f'Bearer {made["token"]}'})
        reply = connection.getresponse()
        self.assertEqual((reply.status, reply.getheader('Content-Type')), (200, 'text/event-stream'))

        def event():
            """Returns (number, answer) of the next event."""
            line = b''
            while not line.startswith(b'event: '):
                line = reply.readline()
                self.assertTrue(line, 'the stream ended')
            return int(line[7:]), json.loads(reply.readline().removeprefix(b'data: '))

        self.assertEqual(event(), (0, {'jobs': [], 'next': None, 'queued': 0, 'running': 0, 'schema': 'roll.jobs/1'}))
        self.assertEqual(event()[1]['scope'], 'read')
        job = self.submit('--hold', '--', 'true')
        number, jobs = event()
        self.assertEqual((number, jobs['jobs']), (0, [{'id': job}]))
        self.ctl('token', 'revoke', made['id'])
        self.assertIn(b'token', reply.read(), 'the last event tells why')
        self.assertEqual(self.ask('/api/v1/stream?watch=totals', token=made['token'])[0], 401)

    def test_a_job_that_does_not_exist_is_named_until_it_is_submitted(self):
        page = self.open()
        for address in ('#/job/1', '#/job/1/log', '#/sweep/1', '#/job/1/history'):
            self.go(page, '#/nodes')
            page.wait_text('Limits by')
            self.go(page, address)
            page.wait_text('Job 1 does not exist')
            self.assertEqual(page.run('document.querySelector("main a").hash'), '#/?state=all')
        self.submit('--name', 'latecomer', '--hold', '--', 'true')
        page.wait_text('Job 1: latecomer')
        page.wait_text('The job has not started yet.')

    def test_pages_follow_the_queue_and_outlive_a_lost_connection(self):
        page = self.open()
        page.run('window.mark = "not loaded again"')
        job = self.submit('--name', 'newcomer', '--', 'sh', '-c', 'echo first; sleep 2; echo second; sleep 600')
        page.wait_text('newcomer')
        self.go(page, f'#/job/{job}/log')
        page.wait_text('second')
        page.run('document.querySelector("[aria-label=\'Search the log\']").value = "fir"')
        page.run('document.querySelector("[aria-label=\'Search the log\']").dispatchEvent(new Event("input"))')
        page.wait('document.querySelector("pre.log").innerText.trim() == "first"')
        self.go(page, '#/')
        page.wait_text('newcomer')
        web = self.webs[-1]
        web.send_signal(signal.SIGKILL)
        page.wait_text('connection lost, trying again')
        self.webs.append(subprocess.Popen([os.path.join(BIN, 'roll-web'), '--dir', self.state, '--listen',
                                           f'127.0.0.1:{self.port}'], env=self.env, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL))
        page.wait('document.querySelector("#status").textContent == "live"')
        self.submit('--name', 'latecomer', '--', 'sleep', '600')
        page.wait_text('latecomer')
        page.press('/')
        self.assertEqual(page.run('document.activeElement.ariaLabel'), 'Search')
        for character in 'newc':
            page.press(character)
        page.press('Enter')
        page.wait('location.hash == "#/?name=newc"')
        page.wait_text('newcomer')
        self.assertEqual(page.run('window.mark'), 'not loaded again')
        self.assertEqual([error for error in page.errors if 'Failed to load' not in error], [])


if __name__ == '__main__':
    unittest.main(verbosity=2)
