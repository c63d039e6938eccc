#!/bin/bash -l
#PBS -N parity-Hpl
#PBS -l walltime=4:0:0
#PBS -l select=1:mpiprocs=72:ncpus=72:ompthreads=1
#PBS -q workq
#PBS -A benchmark
#PBS -l place=scatter:excl
#PBS -r n
# Hpl as parity measures it on example-pbs:cpu, size quick. This script needs neither
# parity nor ReFrame, and prints the benchmark's output.
#   module intel/2024.1
#   module impi/2021.12
#   module parity-codes/1.0
cd -- "${PBS_O_WORKDIR:-.}" || exit 2
here=$(mktemp -d "$PWD/parity-Hpl.XXXXXX") || exit 2     # on a file system that every node of the job shares
trap 'rm -rf -- "$here"' EXIT
cd -- "$here" || exit 2
cat >HPL.dat <<'END'
HPLinpack benchmark input file
written by parity
HPL.out      output file name (unused)
6            device out (6 = standard output)
1            number of problem sizes
18624        N
1            number of block sizes
192          NB
0            PMAP (0 = row-major)
1            number of process grids
8            P
9            Q
16.0         threshold of the scaled residual
1            number of panel factorisations
2            PFACT (2 = right)
1            number of recursive stopping criteria
8            NBMIN
1            number of panels in recursion
2            NDIV
1            number of recursive panel factorisations
1            RFACT (1 = Crout)
1            number of broadcasts
1            BCAST (1 = 1ringM)
1            number of lookahead depths
1            DEPTH
2            SWAP (2 = mix)
64           swapping threshold
0            L1 (0 = transposed)
0            U (0 = transposed)
1            equilibration (1 = yes)
8            memory alignment in doubles
END
(
module load intel/2024.1
module load impi/2021.12
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
mpirun -np 72 xhpl
) </dev/null     # if this script comes from a pipe, mpirun must not read it
