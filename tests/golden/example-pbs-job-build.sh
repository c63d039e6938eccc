#!/bin/bash -l
#PBS -N parity-build
#PBS -l select=1:ncpus=72:ompthreads=1
#PBS -l place=scatter:excl
#PBS -l walltime=4:00:00
#PBS -r y
#PBS -q workq
#PBS -A benchmark
# Build the codes of spack.yaml for example-pbs, on a node of the partition that needs them.
exec 2>&1
cd -- '/a check out' || exit 4
# shellcheck source=/dev/null
. ci/activate || exit 2
exec parity software build --system example-pbs
