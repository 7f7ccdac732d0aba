#!/bin/bash

# Parameters
#SBATCH --array=0-3%4
#SBATCH --cpus-per-task=1
#SBATCH --error=/work/main/.servsim-slurm-hb2b7wgu/%A_%a_0_log.err
#SBATCH --job-name=servsim
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=/work/main/.servsim-slurm-hb2b7wgu/%A_%a_0_log.out
#SBATCH --signal=USR2@90
#SBATCH --time=5
#SBATCH --wckey=submitit

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /work/main/.servsim-slurm-hb2b7wgu/%A_%a_%t_log.out --error /work/main/.servsim-slurm-hb2b7wgu/%A_%a_%t_log.err /work/main/.venv/bin/python -u -m submitit.core._submit /work/main/.servsim-slurm-hb2b7wgu
