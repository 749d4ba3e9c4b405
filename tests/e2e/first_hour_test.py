#!/usr/bin/env python3
"""What a new user meets in the first hour: a second rolld. No trainer."""
import os
import subprocess
import unittest

from harness import RollTest, BIN


class FirstHour(RollTest):

    def read(self, *path):
        with open(os.path.join(*path), encoding='utf-8') as file:
            return file.read()

    def test_a_second_rolld_leaves_the_log_of_the_first_alone(self):
        self.up()
        second = subprocess.run([os.path.join(BIN, 'rolld'), '--dir', self.state], env=self.env, timeout=60,
                                capture_output=True, text=True, check=False)
        self.assertEqual(second.returncode, 4, second.stderr)
        self.assertIn('another rolld serves', second.stderr)
        self.assertNotIn('critical', self.read(self.state, 'rolld.log'))
        self.assertEqual(self.ctl('jobs').returncode, 0)


if __name__ == '__main__':
    unittest.main()
