#!/bin/bash -l
#PBS -N rfm_PairsLatenc
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=64:mpiprocs=1:ncpus=72:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/PairsLatency_8eb60f7a'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
python3 pairs.py --launcher mpirun --in-flight 32 -- osu_latency -m 8:8 -i 500
