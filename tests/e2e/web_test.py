#!/usr/bin/env python3
"""roll-web beside a real rolld: what it serves, who may ask, and that bad clients harm nobody."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import ssl
import stat
import subprocess
import time
import unittest

from certificates import Authority
from harness import RollTest, BIN, json_of, required, text_of, wait_until

SCHEMATHESIS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '.deps', 'schemathesis', 'bin',
                            'schemathesis')
SAMPLE = re.compile(r'[a-z0-9_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+')


class Web(RollTest):

    def setUp(self):
        super().setUp()
        self.webs = []

    def tearDown(self):
        for web in self.webs:
            web.kill()
            web.communicate()
        super().tearDown()

    def configure(self, **http):
        """Writes the section `http` of rolld.yaml."""
        self.write(os.path.join(self.state, 'rolld.yaml'), json.dumps({'http': http}))  # valid YAML too

    def serve(self, *options):
        """Starts roll-web and returns its process; self.port and self.token are its own."""
        listen = [] if os.path.exists(os.path.join(self.state, 'rolld.yaml')) else ['--listen', '127.0.0.1:0']
        command = [os.path.join(BIN, 'roll-web'), '--dir', self.state, *listen, *options]
        web = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=self.env)
        self.webs.append(web)
        self.port = int(web.stdout.readline().strip().rstrip('/').rsplit(':', 1)[1])
        self.token = text_of(self.state, 'web.token').strip()
        return web

    def check_config(self):
        return subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state, '--check-config'], env=self.env,
                              capture_output=True, text=True, check=False)

    def ask(self, path, method='GET', token=None, body=None, **headers):
        """(status, body) of one request."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=20)
        try:
            ours = {'Authorization': f'Bearer {token or self.token}', 'X-Roll-Action': '1'}
            connection.request(method, path, body, {**ours, **headers})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def api(self, path, **options):
        status, body = self.ask('/api/v1/' + path, **options)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def raw(self, data, patience_s=20):
        """What the server answers to these bytes, until it closes or has sent a whole reply."""
        with socket.create_connection(('127.0.0.1', self.port), timeout=patience_s) as connection:
            connection.sendall(data)
            return connection.recv(65536).decode()

    def test_it_serves_what_rollctl_shows(self):
        self.up()
        job = self.submit('--name', 'talker', '--', 'sh', '-c', 'echo "<script>alert(1)</script>"; sleep 600')
        web = self.serve()
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, web.pid), min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19))
        wait_until(lambda: self.api(f'jobs/{job}')['job']['state'] == 'running', 'a running job')
        self.assertEqual(self.api('jobs?fields=id,name')['jobs'], [{'id': int(job), 'name': 'talker'}])
        self.assertEqual(self.api('nodes')['all'], self.json('nodes')['all'])
        self.assertEqual(self.api('totals')['jobs']['running'], 1)
        wait_until(lambda: 'script' in self.ask(f'/api/v1/jobs/{job}/log')[1], 'a log')
        log = self.api(f'jobs/{job}/log')
        self.assertEqual(self.api(f'jobs/{job}/log?from={log["next"]}')['text'], '')
        status, text = self.ask('/metrics')
        self.assertEqual(status, 200)
        for line in text.splitlines():
            self.assertTrue(line.startswith('# ') or SAMPLE.fullmatch(line), line)
        self.assertIn('roll_jobs{state="running"} 1', text)
        status, body = self.ask(f'/api/v1/jobs/{job}/cancel', method='POST', body=json.dumps({'reason': 'seen enough'}))
        self.assertEqual((status, json.loads(body)['cancelled']), (200, [int(job)]), body)
        wait_until(lambda: self.api(f'jobs/{job}')['job']['state'] == 'cancelled', 'a cancelled job')
        self.assertIn('seen enough', self.api(f'jobs/{job}')['job']['reason'])

    def test_only_the_token_opens_it_and_rolld_may_come_and_go(self):
        self.up()
        web = self.serve('--read-only')
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.state, 'web.token')).st_mode), 0o600)
        self.assertEqual(self.ask('/api/v1/jobs', token='0' * 64)[0], 401)
        self.assertEqual(self.ask('/', Host='evil.example')[0], 403)
        self.assertEqual(self.ask('/api/v1/jobs', Origin='http://evil.example')[0], 403)
        policy = re.search(r'Content-Security-Policy: (.*)\r\n', self.raw(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'))[1]
        self.assertIn("default-src 'none'; script-src 'self';", policy)
        self.assertNotIn('unsafe', policy)
        self.assertEqual(self.ask('/api/v1/jobs/1/cancel', method='POST')[0], 403, 'read-only')
        self.ctl('down')
        wait_until(lambda: self.ask('/api/v1/jobs')[0] == 503, 'rolld is gone')
        self.up()
        wait_until(lambda: self.ask('/api/v1/jobs')[0] == 200, 'rolld is back')
        web.send_signal(signal.SIGTERM)
        self.assertEqual(web.wait(10), 0)
        self.assertNotIn(self.token, web.stderr.read(), 'the token is in no log')

    def test_a_token_acts_for_its_user_until_it_is_revoked(self):
        self.up()
        self.serve()
        job = self.submit('--hold', '--', 'true')
        made = {scope: self.json('token', 'create', '--scope', scope, '--expires', '1h', '--note', 'ci')
                for scope in ('read', 'operate')}
        reader, operator = (made[scope]['token'] for scope in ('read', 'operate'))
        self.assertEqual(self.ask('/api/v1/whoami', token=reader)[0], 200)
        self.assertEqual(json.loads(self.ask('/api/v1/jobs?fields=id', token=reader)[1])['jobs'], [{'id': int(job)}])
        cancel = {'method': 'POST', 'body': json.dumps({'selector': str(job), 'reason': 'from CI'})}
        self.assertEqual(self.ask('/api/v1/cancel', token=reader, **cancel)[0], 403)
        self.assertEqual(self.ask('/api/v1/token_create', token=operator, method='POST',
                                  body='{"scope": "operate", "seconds": 3600}')[0], 404, 'no token makes tokens')
        status, body = self.ask('/api/v1/cancel', token=operator, **cancel)
        self.assertEqual((status, json.loads(body)['cancelled']), (200, [int(job)]), body)
        self.assertEqual(self.api('openapi.json')['openapi'], '3.1.0')
        job_file = {'name': 'over-http', 'kind': 'command', 'command': ['true'], 'output': 'out'}
        asked = {'key': 'once', 'base': self.state, 'job': job_file}
        for repeated in (False, True):
            status, body = self.ask('/api/v1/submit', token=operator, method='POST', body=json.dumps(asked))
            self.assertEqual((status, json.loads(body).get('repeated')), (200, repeated), body)
        self.assertEqual(json.loads(body)['output'], os.path.join(self.state, 'out'))
        for change, words in (({'base': 'here'}, 'allowed: the absolute path'),
                              ({'base': '/no/where'}, 'job: workdir is /no/where, which does not exist'),
                              ({'job': None}, 'either `job` or `spec`'),
                              ({'job': {**job_file, 'comand': []}}, 'comand')):
            status, body = self.ask('/api/v1/submit', token=operator, method='POST', body=json.dumps(asked | change))
            self.assertEqual(status, 400, body)
            self.assertIn(words, json.loads(body)['error']['message'])
        listed = self.json('token', 'list')['tokens']
        self.assertEqual({one['scope'] for one in listed}, {'read', 'operate'})
        for name in ('tokens.json', 'rolld.log'):
            text = text_of(self.state, name)
            for token in (reader, operator):
                self.assertNotIn(token.rsplit('_', 1)[1], text, f'no secret is in {name}')
        self.ctl('token', 'revoke', made['operate']['id'])
        wait_until(lambda: self.ask('/api/v1/jobs', token=operator)[0] == 401, 'a revoked token')
        self.assertEqual(self.ask('/api/v1/jobs', token=reader)[0], 200)

    def test_the_token_of_another_user_reaches_only_that_users_jobs(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        made = json.loads(self.ctl('token', 'create', '--scope', 'operate', '--expires', '1h', '--json',
                                   env={**self.env, 'ROLL_DIR': bundle}).stdout)
        self.serve()
        job = self.submit('--env', 'WORD=PRIVATE', '--', 'sh', '-c', 'echo PRIVATE; exec sleep 600')
        wait_until(lambda: 'PRIVATE' in self.ask(f'/api/v1/jobs/{job}/log')[1], 'the log')
        bob = {'token': made['token']}
        for path in (f'jobs/{job}/log', f'jobs/{job}/metrics', f'jobs/{job}', 'jobs', 'events'):
            status, body = self.ask('/api/v1/' + path, **bob)
            self.assertEqual(status, 403 if path.count('/') == 2 else 200, path)
            self.assertNotIn('"PRIVATE"', body, path)
        node = self.api('nodes')['nodes'][0]['node']
        others = [('cancel', {'selector': str(job)}), ('hold', {'selector': str(job)}),
                  ('update', {'selector': str(job), 'priority': 9}), ('checkpoint', {'id': job}),
                  ('drain', {'node': node}), ('shell_open', {'id': job, 'command': ['id']})]
        for operation, arguments in others:
            status, body = self.ask('/api/v1/' + operation, method='POST', body=json.dumps(arguments), **bob)
            self.assertIn(status, (403, 404, 409), operation + body)
        job_file = {'name': 'his', 'kind': 'command', 'command': ['true'], 'hold': True, 'output': 'his-{id}'}
        for user in ('bob', self.api('whoami')['user']):
            status, body = self.ask('/api/v1/submit', method='POST', **bob, body=json.dumps(
                {'key': user, 'user': user, 'base': self.state, 'job': job_file}))
            self.assertEqual((status, self.show(json.loads(body)['id'])['user']), (200, 'bob'), body)
        seen = self.show(job)
        self.assertEqual((seen['state'], seen['priority'], seen['cancelling']), ('running', 0, False))
        hidden = int(self.ctl('submit', '--env', 'WORD=PRIVATE', '--hold', '--parsable', '--', 'true',
                              env={**self.env, 'ROLL_DIR': bundle}).stdout.split()[0])
        self.assertIsNone(self.api(f'jobs/{hidden}')['job']['spec']['env']['WORD'], 'the operator sees the name')
        self.assertNotIn('PRIVATE', self.ask(f'/api/v1/show?id={hidden}')[1])

    def test_promtool_finds_nothing_wrong_with_the_metrics(self):
        self.up()
        self.serve()
        self.wait_done(self.submit('--', 'true'))
        self.submit('--hold', '--', 'true')
        done = subprocess.run([required('promtool'), 'check', 'metrics'], input=self.ask('/metrics')[1],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ''))

        def of_ledger(name):
            return float(re.search(rf'^roll_ledger_{name} (.+)$', self.ask('/metrics')[1], re.MULTILINE)[1])

        for name, file in (('bytes', 'ledger.db'), ('wal_bytes', 'ledger.db-wal')):
            path = os.path.join(self.state, file)
            wait_until(lambda name=name, path=path: of_ledger(name) == os.path.getsize(path) > 0, f'the size of {file}')
        self.assertGreater(of_ledger('volume_free_bytes'), 0)

    def schemathesis(self, token, *options):
        """Calls every operation with made-up arguments; none may answer with a server error."""
        address = f'http://127.0.0.1:{self.port}'
        done = subprocess.run(
            [required(SCHEMATHESIS), 'run', f'{address}/api/v1/openapi.json', '--url', address, '--seed', '1',
             '--header', f'Authorization: Bearer {token}', '--header', 'X-Roll-Action: 1', '--no-color',
             '--exclude-path', '/api/v1/stream',  # its answer does not end
             '--checks', 'not_a_server_error', *options],
            capture_output=True, text=True, check=False, cwd=self.top, env={**self.env, 'HOME': self.top})
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])
        self.assertRegex(done.stdout, r'Tested: [4-9]\d\n')
        self.assertEqual(self.ask('/api/v1/whoami', token=token)[0], 200)

    def test_schemathesis_gets_neither_a_server_error_nor_what_is_of_another_user(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        bundle = os.path.join(self.top, 'bob')
        self.ctl('keys', 'add', 'bob', '--out', bundle)
        make = ('token', 'create', '--scope', 'operate', '--expires', '1h')
        bob = self.json(*make, env={**self.env, 'ROLL_DIR': bundle})['token']
        job = self.submit('--env', 'WORD=PRIVATE', '--', 'sh', '-c', 'echo $WORD; exec sleep 600')
        wait_until(lambda: 'PRIVATE' in self.ctl('logs', job, check=False).stdout, 'the log')
        self.serve()
        with open(os.path.join(self.top, 'schemathesis.toml'), 'w', encoding='utf-8') as file:
            file.write('[parameters]\n"query.id" = "1"\n"query.selector" = "1"\n')  # the job of the other user
        report = os.path.join(self.top, 'answers.har')
        self.schemathesis(bob, '-n', '1', '--phases', 'coverage', '--report', 'har', '--report-har-path', report,
                          '--generation-with-security-parameters', 'false')
        answers = [entry['response'] for entry in json_of(report)['log']['entries']]
        texts = ''.join(answer['content'].get('text', '') for answer in answers if answer['status'] == 200)
        for schema in ('job', 'jobs', 'events', 'nodes', 'totals'):
            self.assertIn(f'"roll.{schema}/1"', texts)
        self.assertNotIn('PRIVATE', texts)
        seen = self.show(job)
        self.assertEqual((seen['state'], seen['priority'], seen['cancelling']), ('running', 0, False))
        self.schemathesis(self.json(*make)['token'], '-n', '4', '--phases', 'fuzzing')

    def test_bad_clients_are_told_so_and_delay_nobody(self):
        self.up()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))  # roll-web raises its limit
        self.serve()
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        self.assertIn(' 431 ', self.raw(b'GET / HTTP/1.1\r\nHost: x\r\nA: ' + b'a' * 9000 + b'\r\n\r\n'))
        self.assertIn(' 413 ', self.raw(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n'))
        self.assertIn(' 400 ', self.raw(b'\x16\x03\x01 this is no HTTP\r\n\r\n'))
        self.assertEqual(self.ask('/api/v1/jobs/9')[0], 404)
        half_open = []
        self.addCleanup(lambda: [one.close() for one in half_open])
        for _ in range(1000):
            one = socket.create_connection(('127.0.0.1', self.port))
            one.sendall(b'GET / HTTP/1.1\r\nHost:')
            half_open.append(one)
        began = time.monotonic()
        job = self.submit('--', 'true')
        self.wait_done(job)
        self.assertEqual(self.api(f'jobs/{job}')['job']['state'], 'done')
        self.assertLess(time.monotonic() - began, 20, 'nobody waits for the 30 s of a slow client')

    def tls(self, authority, version=ssl.TLSVersion.TLSv1_2):
        """Opens a TLS connection to the server, whose certificate must be of the authority."""
        context = ssl.create_default_context(cafile=authority.path('ca.pem'))
        context.minimum_version = version
        if version < ssl.TLSVersion.TLSv1_2:
            context.maximum_version = version
            context.set_ciphers('ALL:@SECLEVEL=0')
        raw = socket.create_connection(('127.0.0.1', self.port), timeout=20)
        self.addCleanup(raw.close)
        return context.wrap_socket(raw, server_hostname='127.0.0.1')

    def serial(self, authority):
        with self.tls(authority) as stream:
            return stream.getpeercert()['serialNumber']

    def test_tls_serves_with_a_certificate_that_is_read_again(self):
        self.up()
        authority = Authority(os.path.join(self.top, 'ca'))
        certificate, key = authority.sign('web', 'IP:127.0.0.1')
        self.configure(listen='0.0.0.0:0', hosts=['127.0.0.1'], tls={'certificate': certificate, 'key': key})
        web = self.serve()
        request = (f'GET /api/v1/version HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n'
                   f'Authorization: Bearer {self.token}\r\n%s\r\n')
        answers = []
        for origin in ('', f'Origin: https://127.0.0.1:{self.port}\r\n', f'Origin: http://127.0.0.1:{self.port}\r\n'):
            with self.tls(authority) as stream:
                stream.sendall((request % origin).encode())
                answers.append(stream.recv(65536).decode())
        self.assertEqual([answer.split()[1] for answer in answers], ['200', '200', '403'])
        with self.assertRaises(ssl.SSLError):
            self.tls(authority, ssl.TLSVersion.TLSv1_1)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            self.ask('/')  # without TLS
        half_open = [socket.create_connection(('127.0.0.1', self.port)) for _ in range(200)]
        self.addCleanup(lambda: [one.close() for one in half_open])
        for one in half_open:
            one.sendall(b'\x16\x03\x01')
        first = self.serial(authority)
        authority.sign('web', 'IP:127.0.0.1')
        second = wait_until(lambda: {self.serial(authority)} - {first}, 'the new certificate').pop()
        os.chmod(key, 0o644)
        web.send_signal(signal.SIGHUP)
        wait_until(lambda: 'accessible to other users' in web.stderr.readline(), 'the error in the log')
        self.assertEqual(self.serial(authority), second)

    def test_a_certificate_that_cannot_serve_is_refused_in_a_sentence(self):
        self.up()
        authority = Authority(os.path.join(self.top, 'ca'))
        good, old, = authority.sign('good', 'IP:127.0.0.1'), authority.sign('old', 'IP:127.0.0.1', -1)
        for certificate, key, status, says in (
                (good[0], old[1], 2, 'or its key does not belong to the certificate'),
                (old[0], old[1], 2, 'is a certificate that has expired'),
                (good[1], good[1], 2, 'has no certificate that OpenSSL can read'),
                ('/no', good[1], 3, '/no'),
                (good[0], good[0], 4, 'is accessible to other users')):
            self.configure(listen='127.0.0.1:0', tls={'certificate': certificate, 'key': key})
            done, checked = self.ctl('web', check=False), self.check_config()
            self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
            self.assertIn(says, done.stderr)
            sentence = done.stderr.splitlines()[0].removeprefix('roll-web: ')
            self.assertEqual((checked.returncode, checked.stdout), (status, ''), checked.stderr)
            self.assertEqual(checked.stderr.splitlines()[0], f'rolld: {sentence}')
        self.configure(listen='127.0.0.1:0', tls={'certificate': good[0], 'key': good[1]})
        self.assertEqual(self.check_config().stdout, 'the configuration is valid\n')

    def test_addresses_that_cannot_be_served_are_refused_in_a_sentence(self):
        self.up()
        for given, words in (('0.0.0.0:0', 'other machines could read the token'), ('localhost:1', 'ADDRESS:PORT'),
                             ('127.0.0.1:99999', 'ADDRESS:PORT'), ('127.0.0.1', 'ADDRESS:PORT')):
            done = self.ctl('web', '--listen', given, check=False)
            self.assertEqual(done.returncode, 2, given)
            self.assertIn(words, done.stderr)
        for http, words in (({'listen': '0.0.0.0:8410'}, 'http.listen is 0.0.0.0:8410: other machines could read the'),
                            ({'listen': '::'}, 'http.listen is ::; allowed: ADDRESS:PORT'),
                            ({'tls': {'certificate': 'a.pem'}}, 'http.tls.key is missing'),
                            ({'tsl': {}}, 'http.tsl is an unknown key')):
            self.configure(**http)
            for done in (self.ctl('web', check=False), self.check_config()):
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                self.assertIn(words, done.stderr)
        self.configure(listen='0.0.0.0:0', insecure=True)
        self.assertEqual(self.check_config().returncode, 0)
        os.unlink(os.path.join(self.state, 'rolld.yaml'))
        self.serve()
        done = self.ctl('web', '--listen', f'127.0.0.1:{self.port}', check=False)
        self.assertEqual(done.returncode, 4)
        self.assertIn('Address already in use', done.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
