#!/bin/bash -l
#SBATCH --job-name="rfm_Npb_3e75fbff"
#SBATCH --ntasks=128
#SBATCH --ntasks-per-node=128
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
srun cg.A.x
