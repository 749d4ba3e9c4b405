#!/usr/bin/env python3
"""Keys decide who may connect. Keys and users' secrets may never be seen in arguments, ledger, logs, outputs, backups
or elsewhere."""
import hashlib
import os
import shutil
import signal
import subprocess
import unittest
import uuid

from harness import BIN, RollTest, text_of, wait_until


class WireFaults(RollTest):

    def secrets(self):
        found = []
        for folder, _, names in os.walk(os.path.join(self.state, 'keys')):
            for name in names:
                if name.endswith('.key'):
                    with open(os.path.join(folder, name), 'rb') as file:
                        found.append(file.read().strip())
        return found

    def holders(self, secrets):
        """Returns the files and processes of this test, except the key files, that contain one of the secrets."""
        places = []
        for folder, _, names in os.walk(self.top):
            places += [os.path.join(folder, name) for name in names if not name.endswith('.key')]
        for pid in self.processes():
            places += [f'/proc/{pid}/cmdline', f'/proc/{pid}/environ']
        found = []
        for place in places:
            try:
                with open(place, 'rb') as file:
                    content = file.read()
            except OSError:
                continue  # a socket, or a process that has ended
            if any(secret in content for secret in secrets):
                found.append(place)
        return found

    def test_secret_keys_stay_in_their_files(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        self.ctl('keys', 'add', 'bob', '--out', os.path.join(self.top, 'bob'))
        done = self.submit('--', 'sh', '-c', 'env; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " "')
        running = self.submit('--', 'sleep', '60')
        self.wait_done(done)
        secrets = self.secrets()
        self.assertGreaterEqual(len(secrets), 3, 'server, client and worker')
        self.assertTrue(all(len(secret) >= 40 for secret in secrets))
        self.assertEqual(self.holders(secrets), [])
        self.ctl('cancel', running)

    def test_a_worker_with_a_key_of_its_own_works_until_it_is_revoked(self):
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--no-worker')
        bundle = os.path.join(self.top, 'n2')
        self.ctl('keys', 'add', 'n2', '--worker', '--out', bundle)
        with subprocess.Popen([os.path.join(BIN, 'roll-worker'), '--dir', bundle, '--node', 'n2'], env=self.env,
                              stderr=subprocess.DEVNULL) as worker:
            try:
                job = self.submit('--', 'true')
                self.wait_done(job)
                second = subprocess.run([os.path.join(BIN, 'roll-worker'), '--dir', self.state, '--node', 'n2'],
                                        env=self.env, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(second.returncode, 4)
                self.assertRegex(second.stderr,
                                 rf'node n2 already runs a roll-worker \(host .*, process {worker.pid}\)')
                self.wait_done(self.submit('--', 'true'))
                self.assertEqual(self.show(job)['attempts'][-1]['nodes'], ['n2'])
                self.keeps_its_node_over_a_restart_of_rolld(worker, bundle)
                self.ctl('keys', 'revoke', 'worker-n2')
                wait_until(lambda: self.json('nodes')['nodes'][0]['silent'], 'the revoked worker is silent')
                with self.other_worker() as other:
                    self.wait_done(self.submit('--', 'true'))  # on the other one: the revoked worker has no attempt
                    other.terminate()
            finally:
                os.kill(worker.pid, signal.SIGCONT)
                worker.terminate()

    def test_up_waits_for_its_own_worker_beside_a_worker_of_another_directory(self):
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--no-worker')
        bundle = os.path.join(self.top, 'n2')
        self.ctl('keys', 'add', 'n2', '--worker', '--out', bundle)
        with subprocess.Popen([os.path.join(BIN, 'roll-worker'), '--dir', bundle], env=self.env) as other:
            try:
                wait_until(lambda: self.json('nodes')['nodes'], 'the other worker')
                failed = self.ctl('up', '--slots', 1, check=False)  # both have the name of the host
                self.assertEqual((failed.returncode, failed.stdout), (1, ''), failed.stderr)
                self.assertIn('roll-worker ended right after its start', failed.stderr)
                self.assertRegex(failed.stderr, rf'already runs a roll-worker \(host .*, process {other.pid}\)')
            finally:
                other.terminate()
        self.ctl('up', '--slots', 1)
        own = text_of(self.state, 'worker.pid').strip()
        self.assertTrue(any(node['process'].endswith(f', process {own}') for node in self.json('nodes')['nodes']))

    def other_worker(self):
        """Starts another roll-worker of the node n2."""
        return subprocess.Popen([os.path.join(BIN, 'roll-worker'), '--dir', self.state, '--node', 'n2'], env=self.env,
                                stderr=subprocess.PIPE, text=True)

    def keeps_its_node_over_a_restart_of_rolld(self, worker, bundle):
        os.kill(worker.pid, signal.SIGSTOP)  # so that the other one comes first
        self.kill_rolld()
        self.ctl('up', '--endpoint', 'tcp://127.0.0.1:*', '--no-worker')
        shutil.copy(os.path.join(self.state, 'endpoint'), bundle)
        with self.other_worker() as other:
            try:
                def waits():
                    return 'waits: node n2 belongs to a silent roll-worker' in text_of(self.state, 'worker.log')
                wait_until(waits, 'the other worker to wait')
                os.kill(worker.pid, signal.SIGCONT)
                self.assertIn('node n2 already runs a roll-worker', other.communicate(timeout=60)[1])
                self.assertEqual(other.returncode, 4)
            finally:
                other.kill()
        self.wait_done(self.submit('--', 'true'))

    def test_a_secret_is_in_the_environment_of_its_job_alone(self):
        value = 'hf_' + uuid.uuid4().hex
        self.up()
        self.ctl('secret', 'set', 'TOKEN', text_in=value + '\n')
        self.ctl('secret', 'set', 'OTHER', '--from', self.write('other', 'of a file'))
        os.remove(os.path.join(self.work, 'other'))
        # The job shows by a digest that it has the value, and holds the value while the test searches for it.
        script = self.write('uses.sh', '#!/bin/sh\n#ROLL --secret TOKEN --secret OTHER\n'
                            'printf %s "$TOKEN" | sha256sum; echo "$OTHER"; while [ ! -e $ROLL_OUTPUT/go ]; do sleep 0.05; done\n')
        job = self.submit(script)
        log = os.path.join(self.output(job), 'logs/attempt-1/rank-0.log')
        wait_until(lambda: os.path.exists(log) and os.path.getsize(log) > 70, 'it to begin')
        self.assertIn(hashlib.sha256(value.encode()).hexdigest(), text_of(log))
        holders = self.holders([value.encode()])
        self.assertTrue(holders)
        self.assertTrue(all(place.endswith('/environ') for place in holders), holders)
        subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state, '--backup', os.path.join(self.top, 'backup')],
                       env=self.env, check=True, capture_output=True)
        # Queries return only the secret's name, also after a restart of rolld, which the job survives.
        for words in (('show', job), ('events',), ('jobs', '-a'), ('secret', 'list'), ('explain', job)):
            self.assertNotIn(value, self.ctl(*words, '--json').stdout)
        self.assertIn('TOKEN', self.ctl('secret', 'list').stdout)
        self.assertEqual(self.show(job)['spec']['secrets'], ['TOKEN', 'OTHER'])
        self.kill_rolld()
        self.ctl('up')
        again = self.submit('--secret', 'TOKEN', '--', 'sh', '-c', 'printf %s "$TOKEN" | sha256sum')
        self.wait_done(again)
        with open(os.path.join(self.output(again), 'logs/attempt-1/rank-0.log'), encoding='utf-8') as file:
            self.assertIn(hashlib.sha256(value.encode()).hexdigest(), file.read())
        self.write(os.path.join(self.output(job), 'go'), '')
        self.wait_done(job)
        self.assertEqual(self.holders([value.encode()]), [], 'nothing is left of it')
        self.assertEqual(os.listdir(os.path.join(self.top, 'backup')).count('secrets.key'), 0)

    def test_a_secret_is_its_owners(self):
        self.ctl('up', '--slots', 2, '--endpoint', 'tcp://127.0.0.1:*')
        self.ctl('keys', 'add', 'bob', '--out', os.path.join(self.top, 'bob'))
        self.ctl('secret', 'set', 'TOKEN', text_in='mine')
        bob = {'--dir': os.path.join(self.top, 'bob')}.popitem()
        self.assertNotIn('TOKEN', self.ctl(*bob, 'secret', 'list').stdout)
        refused = self.ctl(*bob, 'submit', '--secret', 'TOKEN', '--', 'true', check=False)
        self.assertEqual((refused.returncode, 'bob has no secret TOKEN' in refused.stderr), (3, True), refused.stderr)
        self.assertEqual(self.ctl(*bob, 'secret', 'remove', 'TOKEN', check=False).returncode, 3)
        self.ctl(*bob, 'secret', 'set', 'TOKEN', text_in="bob's")
        self.assertEqual([one['user'] for one in self.json(*bob, 'secret', 'list')['secrets']], ['bob'])
        # If the secret is removed while a job waits, explain says so. Once it is set again, the job starts.
        blocks = self.submit('--slots', '2', '--', 'sleep', '60')
        waits = self.submit('--secret', 'TOKEN', '--', 'sh', '-c', 'echo "it is $TOKEN"')
        self.ctl('secret', 'remove', 'TOKEN')
        self.ctl('cancel', blocks)
        self.wait(blocks)
        told = self.ctl('explain', waits).stdout
        self.assertIn('no longer has a secret TOKEN', told)
        self.assertIn('rollctl secret set TOKEN', told)
        self.ctl('secret', 'set', 'TOKEN', text_in='new')
        self.wait_done(waits)
        self.assertEqual(self.ctl('logs', waits).stdout, 'it is new\n')
        wrong = self.ctl('secret', 'set', 'ROLL_X', check=False, text_in='v')
        self.assertEqual(wrong.returncode, 2)
        self.assertEqual(self.ctl('secret', 'set', 'EMPTY', check=False, text_in='\n').returncode, 2)


if __name__ == '__main__':
    unittest.main()
