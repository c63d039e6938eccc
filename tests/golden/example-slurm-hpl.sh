#!/bin/bash -l
#SBATCH --job-name="rfm_Hpl"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=128
#SBATCH --cpus-per-task=1
#SBATCH --output=rfm_job.out
#SBATCH --error=rfm_job.err
#SBATCH --time=4:0:0
#SBATCH --nodes=1
#SBATCH --partition=cpu
#SBATCH --account=benchmark
#SBATCH --exclusive
#SBATCH --hint=nomultithread
#SBATCH --no-requeue
export SLURM_MPI_TYPE=pmix
module load gcc/13.2
module load openmpi/4.1.6
module load parity-codes/1.0
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
export OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1
export OMPI_MCA_hwloc_base_binding_policy=core
export PRTE_MCA_hwloc_default_binding_policy=core
export HYDRA_BINDING=core
export I_MPI_PIN_DOMAIN=core
export SLURM_CPU_BIND=cores
export OMPI_MCA_rmaps_base_mapping_policy=slot
export PRTE_MCA_rmaps_default_mapping_policy=slot
export HYDRA_MAPPING=core
export I_MPI_PERHOST=allcores
export SLURM_DISTRIBUTION=block
(. ./modules.sh gcc/13.2 openmpi/4.1.6 parity-codes/1.0) || exit 2
[ "$1" = watched ] || [ ! -x "$0" ] || ! command -v python3 >/dev/null || exec python3 -IS ./watch.py "$0" watched
./node.sh >node.txt
mkdir -p ranks && lscpu -p=CPU,CORE,SOCKET >ranks/topology
grep Cpus_allowed_list /proc/self/status >ranks/allowed
srun --cpus-per-task=1 ./rank.sh xhpl
parity_ended=$?; (exit $parity_ended)
srun --cpus-per-task=1 python3 -IS dgemm.py xhpl 1404 192 2 >update.txt 2>&1 || true
(exit $((parity_ended ? parity_ended : $?)))
