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
export SLURM_MPI_TYPE=pmix
module load gcc/13.2
module load openmpi/4.1.6
module load parity-codes/1.0
export OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1
srun --cpus-per-task=1 xhpl
