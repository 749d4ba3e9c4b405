#!/usr/bin/env python3
"""roll-notify with a real web server and a command: signatures, retries, a kept position."""
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import threading
import unittest

from certificates import Authority
from harness import BIN, RollTest, text_of, wait_until

SECRET = 'a secret of the test'


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps each notification; the first answers are errors, as the server's `failures` says."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        expected = 'sha256=' + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        self.server.seen.append((self.headers['X-Roll-Signature-256'] == expected, json.loads(body)))
        fails = self.server.failures > 0
        self.server.failures -= 1
        self.send_response(500 if fails else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Notify(RollTest):

    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.started = []

    def serve(self, certificate=None):
        """Starts a server that keeps notifications, with TLS if there is a certificate and its key."""
        server = http.server.HTTPServer(('127.0.0.1', 0), Hook)
        server.seen, server.failures = [], 0
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def start_notify(self):
        with open(os.path.join(self.top, 'notify.log'), 'a', encoding='utf-8') as log:
            started = subprocess.Popen([os.path.join(BIN, 'roll-notify'), '--dir', self.state], env=self.env,
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.started.append(started)
        return started

    def tearDown(self):
        for started in self.started:
            started.kill()
            started.wait()
        super().tearDown()

    def position(self, target):
        return int(text_of(self.state, 'notify', target + '.position'))

    @staticmethod
    def text_with(path, part):
        """Returns the text of the file once it contains `part`."""
        if not os.path.exists(path):
            return None
        text = text_of(path)
        return text if part in text else None

    def seen(self, *events):
        return [(body['event'], body['job']['name']) for good, body in self.server.seen
                if good and body['event'] in events]

    def test_events_reach_a_server_and_a_command_once_each_over_restarts(self):
        self.up()
        key = os.path.join(self.top, 'key')
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), 'w', encoding='ascii') as file:
            file.write(SECRET + '\n')
        said = os.path.join(self.top, 'said')
        self.write(os.path.join(self.state, 'notify.yaml'), json.dumps({'targets': [
            {'name': 'web', 'url': f'http://127.0.0.1:{self.server.server_port}/hook',
             'secret_file': key, 'on': ['started', 'ended'], 'kinds': ['command']},
            {'name': 'script', 'on': ['failed'],
             'command': ['sh', '-c', f'cat >> {said}; echo " $ROLL_EVENT" >> {said}']}]}))
        before = self.submit('--name', 'before', '--', 'true')
        self.wait_done(before)
        notify = self.start_notify()
        wait_until(lambda: os.path.exists(os.path.join(self.state, 'notify', 'script.position')), 'a position')
        self.server.failures = 2
        self.wait_done(self.submit('--name', 'good', '--', 'true'))
        wait_until(lambda: ('ended', 'good') in self.seen('ended'), 'the end of the first job')
        # The first two answers were errors, so the first notification came three times.
        self.assertEqual(self.seen('started', 'ended'), [('started', 'good')] * 3 + [('ended', 'good')])
        self.assertTrue(all(good for good, _ in self.server.seen))
        # The position is written after the answer; a kill before it would deliver the event again.
        wait_until(lambda: self.position('web') >= self.server.seen[-1][1]['seq'], 'the position')
        notify.kill()
        notify.wait()
        self.wait(self.submit('--name', 'bad', '--', 'sh', '-c', 'exit 3'))
        notify = self.start_notify()
        wait_until(lambda: ('ended', 'bad') in self.seen('ended'), 'the end of the second job')
        self.assertEqual(self.seen('ended'), [('ended', 'good'), ('ended', 'bad')])
        body = self.server.seen[-1][1]
        self.assertEqual((body['schema'], body['data']['phase'], body['job']['exit_code']),
                         ('roll.notification/1', 'failed', 3))
        text = wait_until(lambda: self.text_with(said, ' ended\n'), 'the command to end')
        notify.terminate()
        self.assertEqual(notify.wait(), 0)
        self.assertEqual(text.count('roll.notification/1'), 1)
        self.assertIn('"name":"bad"', text)

    def test_a_requeue_reaches_a_server(self):
        self.up()
        self.write(os.path.join(self.state, 'notify.yaml'), json.dumps({'targets': [
            {'name': 'web', 'url': f'http://127.0.0.1:{self.server.server_port}/hook', 'on': ['requeued']}]}))
        self.start_notify()
        wait_until(lambda: os.path.exists(os.path.join(self.state, 'notify', 'web.position')), 'a position')
        runs = os.path.join(self.top, 'runs')
        job = self.submit('--name', 'again', '--', 'sh', '-c',
                          f'echo x >> {runs}; [ $(wc -l < {runs}) -gt 1 ] || exec sleep 600')
        wait_until(lambda: self.show(job)['state'] == 'running' and os.path.exists(runs), 'the first run')
        self.ctl('requeue', job)
        self.wait_done(job)
        wait_until(lambda: self.server.seen, 'the notification')
        bodies = [body for _, body in self.server.seen]
        self.assertEqual([(body['event'], body['job']['id'], body['job']['name']) for body in bodies],
                         [('requeued', int(job), 'again')])
        self.assertEqual((bodies[0]['schema'], bodies[0]['data']['job']), ('roll.notification/1', int(job)))

    def test_an_https_server_must_show_a_certificate_that_is_trusted(self):
        self.up()
        authority = Authority(os.path.join(self.top, 'ca'))
        other = Authority(os.path.join(self.top, 'other'))
        servers, targets = {}, []
        for name, signer, host, days in (('good', authority, 'IP:127.0.0.1,DNS:localhost', 1),
                                         ('another-host', authority, 'DNS:other.example,IP:127.0.0.2', 1),
                                         ('expired', authority, 'IP:127.0.0.1', -1),
                                         ('unknown', other, 'IP:127.0.0.1', 1)):
            servers[name] = self.serve(signer.sign(name, host, days))
            targets.append({'name': name, 'url': f'https://127.0.0.1:{servers[name].server_port}/hook',
                            'ca_file': authority.path('ca.pem')})
        by_name = f'https://localhost:{servers["good"].server_port}/by-name'
        targets += [{**targets[0], 'name': 'by-name', 'url': by_name},
                    {'name': 'system', 'url': targets[0]['url']},
                    {**targets[0], 'name': 'plain', 'url': f'https://127.0.0.1:{self.server.server_port}/hook'}]
        self.write(os.path.join(self.state, 'notify.yaml'), json.dumps({'targets': targets}))
        self.start_notify()
        wait_until(lambda: os.path.exists(os.path.join(self.state, 'notify', 'plain.position')), 'a position')
        self.wait_done(self.submit('--', 'true'))
        log = os.path.join(self.top, 'notify.log')
        for name, says in (('another-host', "the server's certificate is for another host"),
                           ('expired', "the server's certificate has expired"),
                           ('unknown', "signed the server's certificate; if the authority is private, set `ca_file`"),
                           ('system', 'no trusted authority has signed'), ('plain', 'wrong version number')):
            text = wait_until(lambda: self.text_with(log, f'{name}: event'), name)
            line = next(line for line in text.splitlines() if f'{name}: event' in line)
            self.assertIn('was not delivered', line)
            self.assertIn(says, line)
        wait_until(lambda: len(servers['good'].seen) == 2, 'the notifications by address and by name')
        self.assertEqual([len(server.seen) for server in servers.values()], [2, 0, 0, 0])
        self.assertEqual(self.server.seen, [])

    def test_a_bad_file_is_named(self):
        os.makedirs(self.state, mode=0o700)
        path = os.path.join(self.state, 'notify.yaml')
        self.write(path, 'targets: [{name: a, url: "ftp://h"}]\n')
        done = subprocess.run([os.path.join(BIN, 'roll-notify'), '--dir', self.state, '--check'], env=self.env,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('ftp://h is not an http or https URL; allowed: http://HOST[:PORT][/PATH]', done.stderr)


if __name__ == '__main__':
    unittest.main()
