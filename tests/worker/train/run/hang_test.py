#!/usr/bin/env python3
"""Ranks that hang: the others give up, and name them, the group and the transfer. The network interface."""
import csv
import json
import math
import os
import re
import signal
import time
import unittest

from ranks import PATIENCE_S, Attempt, RankCase

# long enough for a step on a busy machine
TIMEOUT = '8s'


class Hang(RankCase):

    def stop_one(self, job, rank, others, document, train_s=0.0):
        """Stops `rank` in training and returns the logs of the other ranks, which all end with 76."""
        self.attempt = attempt = Attempt(self, job, 1, document)
        attempt.wait_step(3)
        time.sleep(train_s)
        attempt.ranks[rank].send_signal(signal.SIGSTOP)
        codes = [attempt.ranks[other].wait(120) for other in others]
        self.assertEqual(set(codes), {76}, attempt.log(others[0]))
        return [attempt.log(other) for other in others]

    def test_a_stopped_rank_is_named_with_the_transfer_that_waits_for_it(self):
        document = self.document(100000, dp=3, train__global_batch_size=6, parallel__collective_timeout=TIMEOUT)
        logs = self.stop_one(1, 1, (0, 2), document)
        for log in logs:
            self.assertRegex(log, r'error: number \d+ of group (dp|world), all-(reduce|gather) of [a-z ,0-9]+, \d+ '
                                  r'bytes, has waited \d+ s; rank 1 (never issued this transfer, and|issued this '
                                  r'transfer, but) its process does not respond', log)
        waits = {re.search(r'number (\d+ of group \w+)', log)[1] for log in logs}
        self.assertEqual(len(waits), 1, logs)

    def test_a_stage_that_waits_for_another_stage_is_told_apart_from_the_one_that_hangs(self):
        document = self.document(100000, dp=1, parallel__pp=3, resources__slots_per_node=3,
                                 model__num_hidden_layers=3, parallel__collective_timeout=TIMEOUT)
        logs = self.stop_one(2, 2, (0, 1), document)
        self.assertRegex(logs[1], r'rank 2 [a-z ,]*its process does not respond')
        self.assertRegex(logs[0], r'rank 1 never issued this transfer, and waits for number|'
                                  'rank 2 [a-z ,]*its process does not')
        self.assertNotRegex(logs[0] + logs[1], r'rank [01] [a-z ,]*its process does not respond')

    def test_the_rank_that_serves_the_store_is_named_too(self):
        document = self.document(100000, dp=2, parallel__collective_timeout=TIMEOUT)
        logs = self.stop_one(3, 0, (1,), document, train_s=3)  # every rank publishes twice a second
        self.assertRegex(logs[0], r'of group \w+, all-(reduce|gather) of .*; rank 0, which serves the store, does not '
                                  r'respond')
        stuck = re.search(r'stuck: number (\d+) of group (\w+), (.*), has waited', logs[0]).groups()
        with open(os.path.join(os.path.dirname(self.attempt.launch), 'transfers.tsv'), encoding='utf-8') as lines:
            rows = list(csv.DictReader(lines, delimiter='\t'))
        row, = [row for row in rows if (row['number'], row['group'], row['transfer']) == stuck]
        # Rank 0 may have issued the transfer, too, before it was stopped.
        self.assertEqual((row['ranks'], '1' in row['came'], '1' in row['not_done']), ('0,1', True, True))

    def collectives(self, job, document):
        """Returns the collectives of rank 0 up to step 6, in which the last rank hangs."""
        hangs = {'rank': document['resources']['slots_per_node'] - 1, 'step': 6, 'phase': 'forward', 'kind': 'hang'}
        document['train']['faults'] = [hangs]
        attempt = Attempt(self, job, 1, document, allow_faults=True)
        self.assertEqual({process.wait(PATIENCE_S) for process in attempt.ranks[:-1]}, {76}, attempt.log())
        table = os.path.join(os.path.dirname(attempt.launch), 'transfers-rank-0.tsv')
        with open(table, encoding='utf-8') as lines:
            return [re.sub(r', \d+ bytes$', '', row['transfer']) for row in csv.DictReader(lines, delimiter='\t')
                    if not row['sequence']]

    def test_a_step_ends_with_one_gather_over_all_ranks(self):
        documents = os.path.join(self.top, 'documents.jsonl')
        with open(documents, 'w', encoding='utf-8') as file:
            file.writelines(json.dumps({'text': 'abcdefghij' * (1 + i % 4)}) + '\n' for i in range(4000))
        apart = {'train': [documents], 'attention': 'within_documents'}
        tensors = re.compile(' of (gradients|partial gradients|embedding|row output|column input|head|vocabulary)')
        layouts = ({'dp': 2}, {}), ({'pp': 2}, {}), ({'tp': 2, 'pp': 2, 'dp': 2}, {}), ({'dp': 2}, apart)
        for job, (parallel, data) in enumerate(layouts, 10):
            with self.subTest(parallel=parallel, data=data):
                document = self.document(10, resources__slots_per_node=math.prod(parallel.values()),
                                         parallel={**parallel, 'collective_timeout': TIMEOUT})
                document['data'].update(data)
                found = self.collectives(job, document)
                gather = 'all-gather of loss and gradient norm'
                ends = [i for i, transfer in enumerate(found) if transfer == gather]
                self.assertEqual(len(ends), 5, found)
                # After the first step, the ranks measure their speed and their memory.
                small = {transfer for transfer in found[ends[1]:] if not tensors.search(transfer)}
                self.assertEqual(small, {gather} | ({'all-reduce of token count'} if 'dp' in parallel else set()))

    def test_the_network_interface_can_be_set_and_is_logged(self):
        run = self.run_whole(4, 1, self.document(2, dp=2))
        self.assertIn('network: the interface of 127.0.0.1\n', run.log())
        run = self.run_whole(5, 1, self.document(2, dp=2), env={'GLOO_SOCKET_IFNAME': 'lo'})
        self.assertIn('network: interface lo\n', run.log())
        self.refused(self.document(2, dp=2), 2, 'GLOO_SOCKET_IFNAME is nic9, but this machine has no such network '
                     'interface', env={'GLOO_SOCKET_IFNAME': 'nic9'})


if __name__ == '__main__':
    unittest.main()
