#!/usr/bin/env python3
"""`rollctl doctor --slurm` with a Slurm that is played: what a node sees, and what is wrong there."""
import os
import unittest

from harness import RollTest, BIN

# srun as the words of its job run here; what PLAYED says is put in the place of other things.
SRUN = """#!/usr/bin/env python3
import os, sys, time
words = sys.argv[1:]
if words == ['--version']:
    print('slurm 23.11')
    sys.exit()
with open(os.environ['PLAYED'] + '.asked', 'w') as file:
    file.write(' '.join(words[:words.index('bash')]))
words = words[words.index('bash'):]
exec(open(os.environ['PLAYED']).read())
os.execvp(words[0], words)
"""
ANSWERS = {'sbatch': '', 'scancel': '', 'squeue': '', 'sinfo': "echo 'gpu|up|infinite|2|8|(null)'"}


class Doctor(RollTest):

    def setUp(self):
        super().setUp()
        folder = os.path.join(self.top, 'slurm')
        os.makedirs(folder)
        for name, answer in ANSWERS.items():
            self.program(os.path.join(folder, name),
                         f'#!/bin/sh\n[ "$1" != --version ] || exec echo slurm 23.11\n{answer}\n')
        self.program(os.path.join(folder, 'srun'), SRUN)
        self.env['PATH'] = f'{folder}:{self.env["PATH"]}'
        self.env['PLAYED'] = os.path.join(self.top, 'played')
        self.ctl('up', '--no-worker', '--endpoint', 'tcp://127.0.0.1:*')
        self.ctl('alloc', 'add', 'q', '--time', '1h', '--partition', 'gpu', '--account', 'lab')

    def program(self, path, text):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(path, 0o755)

    def look(self, played=''):
        """{check: (good, detail, remedy)} where srun does this first."""
        with open(self.env['PLAYED'], 'w', encoding='utf-8') as file:
            file.write(played)
        found = self.json('doctor', '--slurm', check=False)['checks']
        return {one['check']: (one['good'], one['detail'], one['remedy']) for one in found}

    def test_a_node_that_sees_all_of_it(self):
        said = self.look()
        for check in ('a node', 'node: roll-worker', 'node: directory', 'node: to rolld'):
            self.assertTrue(said[check][0], said)
        self.assertNotIn('shared directory', said, 'what was seen is not guessed')
        with open(self.env['PLAYED'] + '.asked', encoding='utf-8') as file:
            asked = file.read()
        for word in ('--immediate=20', '--nodes=1', '--partition=gpu', '--account=lab'):
            self.assertIn(word, asked)

    def test_each_fault_names_what_to_change(self):
        # words: bash -c SCRIPT NAME WORKER DIRECTORY HOST PORT
        broken = os.path.join(self.top, 'broken')
        self.program(broken, '#!/bin/sh\necho libz.so: cannot open >&2\nexit 127\n')
        other = os.path.join(self.top, 'other')
        os.makedirs(other)
        for played, check, detail, remedy in (
                ("words[4] = '/nowhere'", 'node: roll-worker', 'is not there', 'install Roll'),
                (f"words[4] = '{broken}'", 'node: roll-worker', 'does not run: libz.so: cannot open', '--version'),
                ("words[4] = '/bin/echo'", 'node: roll-worker', 'is version', 'same version'),
                (f"words[5] = '{other}'", 'node: directory', 'No such file', 'rollctl up --shared'),
                ("words[7] = '1'", 'node: to rolld', 'Connection refused', '--endpoint tcp://')):
            said = self.look(played)
            self.assertFalse(said[check][0], (played, said))
            self.assertIn(detail, said[check][1])
            self.assertIn(remedy, said[check][2])
            bad = [name for name, one in said.items() if name.startswith('node: ') and not one[0]]
            self.assertEqual(bad, [check])

    def test_no_free_node_is_no_fault_and_an_srun_that_is_refused_is(self):
        busy = self.look("sys.exit('srun: error: Unable to allocate resources: Requested nodes are busy')")
        self.assertTrue(busy['a node'][0], busy)
        self.assertIn('skipped: Slurm had no free node', busy['a node'][1])
        self.assertIn('shared directory', busy, 'then it is guessed')
        refused = self.look("sys.exit('srun: error: Unable to allocate resources: Invalid account')")
        self.assertFalse(refused['a node'][0])
        self.assertIn('Invalid account', refused['a node'][1])

    def test_it_says_what_it_waits_for(self):
        self.look()
        self.assertIn('asks Slurm for a node to look from, for at most 20 s',
                      self.ctl('doctor', '--slurm', check=False).stderr)


if __name__ == '__main__':
    assert os.path.exists(os.path.join(BIN, 'rollctl')), f'no programs in {BIN}'
    unittest.main()
