#!/bin/sh
# Run one rank of an MPI job: note in ranks/ where it runs, then become the given program.
#     rank.sh [--into FOLDER] [--preload LIBRARY NAME=VALUE] PROGRAM ARGUMENTS
# Only the program loads the library that profiles MPI, not the launcher. Arguments name it and its variable, since
# launchers do not pass variables to other nodes, and a partly profiled run hangs.
into=ranks
if [ "$1" = --into ]; then into=$2 && shift 2; fi
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
printf '%s %s %s\n' "$rank" "$(uname -n)" "$cpus" >"$into/$rank"
if [ "$1" = --preload ]; then
    case $2 in
    */*) [ -r "$2" ] || { echo "rank.sh: $2: cannot be read" >&2; exit 1; } ;;
    esac
    LD_PRELOAD=$2
    export LD_PRELOAD "$3"
    shift 3
fi
exec "$@"
