#!/bin/bash -l
#PBS -N rfm_Ior_d703d21
#PBS -o rfm_job.out
#PBS -e rfm_job.err
#PBS -l walltime=4:0:0
#PBS -l select=2:mpiprocs=72:ncpus=72:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
#PBS -r n
cd '@CHECKOUT@/results/stage/example-pbs/cpu/intel/Ior_d703d21d'
module load intel/2024.1
module load impi/2021.12
module load parity-codes/1.0
export OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1
export OMPI_MCA_hwloc_base_binding_policy=core
export PRTE_MCA_hwloc_default_binding_policy=core
export HYDRA_BINDING=core
export I_MPI_PIN_DOMAIN=core
export SLURM_CPU_BIND=cores
export OMPI_MCA_rmaps_base_mapping_policy=ppr:72:node
export PRTE_MCA_rmaps_default_mapping_policy=ppr:72:node
export HYDRA_MAPPING=core
export I_MPI_PERHOST=allcores
export SLURM_DISTRIBUTION=block
(. ./modules.sh intel/2024.1 impi/2021.12 parity-codes/1.0) || exit 2
[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || exec python3 -IS ./watch.py "$0" watched
export PATH="$PATH:$PWD" OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-pbs_rsh.sh}" PRTE_MCA_plm_ssh_agent="${PRTE_MCA_plm_ssh_agent:-pbs_rsh.sh}"
./node.sh >node.txt
folder=$(python3 room.py /gpfs/scratch/parity 603979776 144) || exit 2
trap 'rm -rf -- "$folder"' EXIT
mkdir -p ranks && lscpu -p=CPU,CORE,SOCKET >ranks/topology
grep Cpus_allowed_list /proc/self/status >ranks/allowed
mpirun -np 144 --hostfile "$PBS_NODEFILE" ./rank.sh ior -a POSIX -b 4194304 -t 1048576 -i 3 -e -w -r -o "$folder/data" -C -Q 1
