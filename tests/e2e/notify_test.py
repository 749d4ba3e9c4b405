#!/usr/bin/env python3
"""roll-notify with a real web server and a command: signatures, retries, a kept position."""
import hashlib
import hmac
import http.server
import json
import os
import subprocess
import threading
import unittest

from harness import BIN, RollTest, wait_until

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
        self.server = http.server.HTTPServer(('127.0.0.1', 0), Hook)
        self.server.seen, self.server.failures = [], 0
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def start_notify(self):
        with open(os.path.join(self.top, 'notify.log'), 'a', encoding='utf-8') as log:
            started = subprocess.Popen([os.path.join(BIN, 'roll-notify'), '--dir', self.state], env=self.env,
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        return started

    def seen(self, *events):
        return [(body['event'], body['job']['name']) for good, body in self.server.seen
                if good and body['event'] in events]

    def test_events_reach_a_server_and_a_command_once_each_over_restarts(self):
        self.up()
        key = os.path.join(self.top, 'key')
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), 'w', encoding='ascii') as file:
            file.write(SECRET + '\n')
        said = os.path.join(self.top, 'said')
        with open(os.path.join(self.state, 'notify.yaml'), 'w', encoding='utf-8') as file:
            json.dump({'targets': [
                {'name': 'web', 'url': f'http://127.0.0.1:{self.server.server_port}/hook',
                 'secret_file': key, 'on': ['started', 'ended'], 'kinds': ['command']},
                {'name': 'script', 'on': ['failed'],
                 'command': ['sh', '-c', f'cat >> {said}; echo " $ROLL_EVENT" >> {said}']}]}, file)
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
        notify.kill()
        notify.wait()
        self.wait(self.submit('--name', 'bad', '--', 'sh', '-c', 'exit 3'))
        self.start_notify()
        wait_until(lambda: ('ended', 'bad') in self.seen('ended'), 'the end of the second job')
        self.assertEqual(self.seen('ended'), [('ended', 'good'), ('ended', 'bad')])
        body = self.server.seen[-1][1]
        self.assertEqual((body['schema'], body['data']['phase'], body['job']['exit_code']),
                         ('roll.notification/1', 'failed', 3))
        wait_until(lambda: os.path.exists(said), 'the command to run')
        wait_until(lambda: 'ended\n' in open(said, encoding='utf-8').read(), 'the command to end')
        with open(said, encoding='utf-8') as file:
            text = file.read()
        self.assertEqual(text.count('roll.notification/1'), 1)
        self.assertIn('"name":"bad"', text)

    def test_a_bad_file_is_named(self):
        os.makedirs(self.state, mode=0o700)
        path = os.path.join(self.state, 'notify.yaml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('targets: [{name: a, url: "https://h"}]\n')
        done = subprocess.run([os.path.join(BIN, 'roll-notify'), '--dir', self.state, '--check'], env=self.env,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('https://h is not an http URL; allowed: http://HOST[:PORT][/PATH]', done.stderr)
        self.assertIn('curl', done.stderr)


if __name__ == '__main__':
    unittest.main()
