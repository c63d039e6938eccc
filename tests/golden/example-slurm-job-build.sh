#!/bin/bash -l
#SBATCH --job-name=parity-build
#SBATCH --output=parity-build-%j.out
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=128
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --partition=cpu
#SBATCH --account=benchmark
#SBATCH --exclusive
#SBATCH --hint=nomultithread
# Build the codes of spack.yaml for example-slurm, on a node of the partition that needs them.
exec 2>&1
cd -- '/a check out' || exit 4
# shellcheck source=/dev/null
. ci/activate || exit 2
exec parity software build --system example-slurm
