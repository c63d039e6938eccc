#!/bin/bash -l
#PBS -N rfm_Npb_3e75fbf
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=1:mpiprocs=64:ncpus=64:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/Npb_3e75fbff'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
mpirun -np 64 cg.A.x
