#!/bin/bash -l
#PBS -N parity-nightly
#PBS -l select=1:ncpus=1:mem=1gb
#PBS -l place=free
#PBS -l walltime=8:00:00
#PBS -r n
#PBS -q workq
#PBS -A benchmark
#PBS -W depend=afterok:12
# Run the nightly of example-pbs:cpu: this job submits the measurements, waits for them, and judges.
exec 2>&1
cd -- '/a check out' || exit 4
exec ci/nightly --system example-pbs:cpu --time-limit 7.83
