"""Adds the ranks of all processes with torch.distributed over Gloo, and prints the sum.

torchrun and Roll (resources.tasks_per_node) both set the variables that this program reads:
RANK, WORLD_SIZE, LOCAL_RANK, GROUP_RANK, MASTER_ADDR and MASTER_PORT.
"""
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group('gloo')  # reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
# one write, because ranks of a torchrun share a log
sys.stdout.write(f'rank {rank} of {size}, local rank {os.environ["LOCAL_RANK"]}, '
                 f'node {os.environ["GROUP_RANK"]}: sum of the ranks is {total.item():.0f}\n')
sys.stdout.flush()
dist.destroy_process_group()
