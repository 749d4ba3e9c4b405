#!/usr/bin/env python3
"""rolld's command line: commands after which it ends, and values that it refuses."""
import os
import subprocess
import unittest

from harness import BIN, RollTest


class House(RollTest):
    def rolld(self, *args, status=0):
        """Returns what a rolld that ends by itself prints."""
        done = subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state, *args], env=self.env, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, f'{args}: {done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    def test_a_directory_without_a_ledger_is_not_called_undamaged(self):
        for args in (('--check',), ('--backup', os.path.join(self.top, 'copy'))):
            self.assertIn(f'there is no ledger in {self.state}', self.rolld(*args, status=3))
        self.assertIn('does not exist', self.rolld('--start-over', status=3))
        self.assertFalse(os.path.exists(self.state), 'nothing was made')

    def test_a_backup_is_restored_on_a_new_machine(self):
        self.up()
        job = self.submit('--hold', '--', 'true')
        copy = os.path.join(self.top, 'copy')
        self.rolld('--backup', copy)
        self.ctl('down', '--now')
        self.state = self.env['ROLL_DIR'] = os.path.join(self.top, 'new', 'state')
        self.assertIn('restored up to event', self.rolld('--restore', copy))
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o700)
        self.up()
        self.assertEqual(self.show(job)['state'], 'queued')

    def test_a_damaged_ledger_ends_rolld_with_the_status_that_systemd_does_not_restart(self):
        self.up()
        self.submit('--hold', '--', 'true')
        self.ctl('down', '--now')
        os.truncate(os.path.join(self.state, 'ledger.db'), 5000)
        self.assertIn('--start-over', self.rolld(status=6))

    def test_a_variable_that_is_not_set_does_not_make_rolld_serve(self):
        for option in ('--backup', '--restore'):
            self.assertIn('name a directory', self.rolld(option, '', status=2))

    def test_values_outside_their_range_are_refused_in_a_sentence(self):
        for option, values in (('--stillness', ('nan', '1e12', '-1', 'x')),
                               ('--volume-patience', ('nan', 'inf', '1e12')),
                               ('--rate-limit', ('nan', '-1', '1e300')), ('--max-connections', ('0', '-1', '1e30', '')),
                               ('--slurm-poll', ('nan', '0', '1e9'))):
            for value in values:
                said = self.rolld(option, value, status=2)
                self.assertRegex(said, f'{option}.*(not allowed; allowed: [0-9.]+ to [0-9]+\n|[Cc]ould not convert)')
        for port in ('65536', '99999', '4294967297'):
            said = self.rolld('--endpoint', f'tcp://127.0.0.1:{port}', status=2)
            self.assertIn(f'the port is {port}; allowed: 0 to 65535', said)
        self.assertFalse(os.path.exists(self.state), 'nothing was made')


if __name__ == '__main__':
    unittest.main(verbosity=2)
