#!/bin/bash
#SBATCH --job-name=torchrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=1-00:00:00
#SBATCH --export=ALL
# torchrun on two nodes. srun starts one torchrun on each node:
#   rollctl submit examples/sbatch/torchrun.sh
# Roll sets MASTER_ADDR and MASTER_PORT; in Slurm they are set here.

export MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}
export MASTER_PORT=${MASTER_PORT:-29500}
export RANKS=${SLURM_GPUS_ON_NODE:-2}
srun --kill-on-bad-exit=1 bash -c 'exec python3 -m torch.distributed.run --nnodes=$SLURM_NNODES \
    --nproc-per-node=$RANKS --node-rank=$SLURM_NODEID --master-addr=$MASTER_ADDR \
    --master-port=$MASTER_PORT examples/gang/all_reduce.py'
