#!/bin/sh
# Two nodes of four GPUs each train together: `sbatch slurm.sh`.
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00

# Each node runs one launcher, which starts a rank for each of its GPUs. Rank 0 is on the first node.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))

# shellcheck disable=SC2016 # The number of a node is known on the node.
exec srun sh -c 'exec npx heddle launch -n 4 --nodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" --address "$0" --restarts 3 train.js' \
  "$first:$port"
