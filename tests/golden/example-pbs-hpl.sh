#!/bin/bash -l
#PBS -N rfm_Hpl
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=1:mpiprocs=72:ncpus=72:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/Hpl'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
export OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1
mpirun -np 72 xhpl
