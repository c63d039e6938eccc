#!/bin/bash -l
#PBS -N rfm_Npb_3e75fbf
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=1:mpiprocs=64:ncpus=64:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
#PBS -r n
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/Npb_3e75fbff'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
export OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1
export OMPI_MCA_hwloc_base_binding_policy=core
export PRTE_MCA_hwloc_default_binding_policy=core
export I_MPI_PIN_DOMAIN=core
export SLURM_CPU_BIND=cores
export OMPI_MCA_rmaps_base_mapping_policy=slot
export PRTE_MCA_rmaps_default_mapping_policy=slot
export I_MPI_PERHOST=allcores
export SLURM_DISTRIBUTION=block
[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || exec python3 -I ./watch.py "$0" watched
./node.sh >node.txt
mkdir -p ranks && lscpu -p=CPU,CORE,SOCKET >ranks/topology
grep Cpus_allowed_list /proc/self/status >ranks/allowed
mpirun -np 64 ./rank.sh cg.A.x
