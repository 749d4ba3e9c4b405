#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=2
#SBATCH --mem=16G
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
#SBATCH --signal=B:USR1@120
#SBATCH --mail-type=END
# A training on one GPU that saves its state before the time limit:
#   sbatch examples/sbatch/train.sh            in Slurm
#   rollctl submit examples/sbatch/train.sh    in Roll; without a GPU, add --gpus 0

trap 'echo "the time limit is near"; kill -USR1 $training' USR1
echo "job $SLURM_JOB_ID on $SLURMD_NODENAME with $SLURM_CPUS_PER_TASK CPUs"
python3 examples/sbatch/train.py --threads "$SLURM_CPUS_PER_TASK" --state "$SLURM_JOB_NAME.pt" &
training=$!
until wait $training; status=$?; ! kill -0 $training 2>/dev/null; do :; done
exit $status
