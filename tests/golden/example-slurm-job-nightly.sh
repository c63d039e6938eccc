#!/bin/bash -l
#SBATCH --job-name=parity-nightly
#SBATCH --output=parity-nightly-%j.out
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --time=8:00:00
#SBATCH --no-requeue
#SBATCH --partition=cpu
#SBATCH --account=benchmark
#SBATCH --mem=1G
#SBATCH --dependency=afterok:12 --kill-on-invalid-dep=yes
# Run the nightly of example-slurm:cpu: this job submits the measurements, waits for them, and judges.
exec 2>&1
cd -- '/a check out' || exit 4
# the measurements are jobs of their own: this job's variables of Slurm must not reach them
for name in "${!SLURM_@}"; do [ "$name" = SLURM_CONF ] || unset "$name"; done
exec ci/nightly --system example-slurm:cpu --time-limit 7.83
