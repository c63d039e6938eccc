#!/bin/sh
# Run one rank of an MPI job: note in ranks/ where it runs, then become the given program.
#     rank.sh [--into FOLDER] [--device cuda|rocm] [--preload LIBRARY NAME=VALUE] PROGRAM ARGUMENTS
# Only the program loads the library that profiles MPI, not the launcher. Arguments name it and its variable, since
# launchers do not pass variables to other nodes, and a partly profiled run hangs.
# With --device a rank takes the device of its number on the node, and notes the UUID. Nothing runs on an MPI that
# says that it cannot send from a device.
into=ranks device=
if [ "$1" = --into ]; then into=$2 && shift 2; fi
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
if [ "$1" = --device ]; then
    api=$2 && shift 2
    # the launcher's own number first: under mpirun every rank has the SLURM_LOCALID of the job's script
    LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PALS_LOCAL_RANKID:-${MV2_COMM_WORLD_LOCAL_RANK:-}}}}
    LOCAL_RANK=${LOCAL_RANK:-${FLUX_TASK_LOCAL_ID:-${SLURM_LOCALID:-0}}}
    # MVAPICH's name: some programs read it first, and Slurm's number in the job before LOCAL_RANK
    MV2_COMM_WORLD_LOCAL_RANK=$LOCAL_RANK CUDA_DEVICE_ORDER=PCI_BUS_ID
    export LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK CUDA_DEVICE_ORDER
    case ${CUDA_VISIBLE_DEVICES:-} in
    *MIG-*) ;;              # an instance: the driver tells of whole devices
    *) device=$(python3 -I gpus.py tell 2>/dev/null | awk -F'"' -v place="$LOCAL_RANK" '
            $2 == "uuid" { found[count++] = $4 }
            END { if (count) print found[place % count] }') ;;
    esac
    device=${device:-unknown}
fi
printf '%s %s %s%s\n' "$rank" "$(uname -n)" "$cpus" "${device:+ $device}" >"$into/$rank"
if [ "${api:-}" = cuda ] && "$(dirname "$(command -v mpirun)")/ompi_info" --parsable --all 2>/dev/null |
        grep -q '^mca:mpi:base:param:mpi_built_with_cuda_support:value:false'; then
    [ "$rank" != 0 ] || echo 'rank.sh: this MPI sends from no device: mpi_built_with_cuda_support is false'
    exit 0
fi
case ${MPI4PY_LIBMPI:-} in
*/libmpich.so.12)       # Debian's name for what mpi4py asks for as libmpi.so.12
    mkdir -p mpich && ln -s "$MPI4PY_LIBMPI" mpich/libmpi.so.12 2>/dev/null
    LD_LIBRARY_PATH=$PWD/mpich${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH ;;
esac
if [ "$1" = --preload ]; then
    case $2 in
    */*) [ -r "$2" ] || { echo "rank.sh: $2: cannot be read" >&2; exit 1; } ;;
    esac
    LD_PRELOAD=$2
    export LD_PRELOAD "$3"
    shift 3
fi
exec "$@"
