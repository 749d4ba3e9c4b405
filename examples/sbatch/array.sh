#!/bin/bash
#SBATCH --job-name=count
#SBATCH --array=1-4%2
#SBATCH --ntasks=1
#SBATCH --time=10
#SBATCH --output=count-%A_%a.out
# Counts the words of one file of a data set for each index of the array:
#   rollctl submit examples/sbatch/array.sh docs/*.md

files=("$@")
for index in $(seq $((SLURM_ARRAY_TASK_ID - 1)) "$SLURM_ARRAY_TASK_COUNT" $((${#files[@]} - 1))); do
    echo "${files[${index}]} $(wc -w <"${files[${index}]}")"
done
