#!/bin/sh
# One rank of an MPI job: notes in ranks/ where it runs, then becomes the program that it is given.
#     rank.sh [--into FOLDER] [--mpip LIBRARY] PROGRAM ARGUMENTS
# mpiP's library is loaded into the program alone, not into the launcher; and named as an argument,
# since launchers do not hand variables to other nodes: a run that is profiled in part hangs.
into=ranks
if [ "$1" = --into ]; then into=$2 && shift 2; fi
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
printf '%s %s %s\n' "$rank" "$(uname -n)" "$cpus" >"$into/$rank"
if [ "$1" = --mpip ]; then
    case $2 in
    */*) [ -r "$2" ] || { echo "rank.sh: $2: cannot be read" >&2; exit 1; } ;;
    esac
    # sums over all callers of a call, all digits
    MPIP=-k0,-e LD_PRELOAD=$2
    export MPIP LD_PRELOAD
    shift 2
fi
exec "$@"
