#!/bin/bash -l
#PBS -N rfm_PairsLatenc
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=64:mpiprocs=1:ncpus=72:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
#PBS -r n
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/PairsLatency_d98f8c5a'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
export OMPI_MCA_hwloc_base_binding_policy=core
export PRTE_MCA_hwloc_default_binding_policy=core
export I_MPI_PIN_DOMAIN=core
export SLURM_CPU_BIND=cores
export OMPI_MCA_rmaps_base_mapping_policy=slot
export PRTE_MCA_rmaps_default_mapping_policy=slot
export I_MPI_PERHOST=allcores
export SLURM_DISTRIBUTION=block
[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || exec python3 -I ./watch.py "$0" watched
export PATH="$PATH:$PWD" OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-pbs_rsh.sh}" PRTE_MCA_plm_ssh_agent="${PRTE_MCA_plm_ssh_agent:-pbs_rsh.sh}"
./node.sh >node.txt
python3 pairs.py --launcher mpirun --in-flight 32 --cpus 1 --limit 120 -- osu_latency -m 8:8 -i 500
