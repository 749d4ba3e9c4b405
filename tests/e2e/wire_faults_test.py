#!/usr/bin/env python3
"""What may never be seen: secret keys, in arguments, ledger, logs, outputs or the environment of jobs."""
import os
import unittest

from harness import RollTest


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
        """What holds one of the secrets besides the key files: files and processes of this test."""
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
                continue  # a socket, a process that has ended
            if any(secret in content for secret in secrets):
                found.append(place)
        return found

    def test_secret_keys_stay_in_their_files(self):
        self.up()
        self.ctl('keys', 'add', 'bob', '--out', os.path.join(self.top, 'bob'))
        done = self.submit('--', 'sh', '-c', 'env; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " "')
        running = self.submit('--', 'sleep', '60')
        self.wait_done(done)
        secrets = self.secrets()
        self.assertGreaterEqual(len(secrets), 3, 'server, client and worker')
        self.assertTrue(all(len(secret) >= 40 for secret in secrets))
        self.assertEqual(self.holders(secrets), [])
        self.ctl('cancel', running)

    def test_key_files_are_for_their_user_alone(self):
        self.up()
        for folder, _, names in os.walk(os.path.join(self.state, 'keys')):
            for name in names:
                mode = os.stat(os.path.join(folder, name)).st_mode & 0o777
                if name.endswith('.key'):
                    self.assertEqual(mode, 0o600, name)
                self.assertEqual(mode & 0o022, 0, name)


if __name__ == '__main__':
    unittest.main()
