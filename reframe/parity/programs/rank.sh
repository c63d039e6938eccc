#!/bin/sh
# One rank of an MPI job: notes in ranks/ where it runs, then becomes the program that it is given.
# PARITY_PRELOAD names a library for the program alone: the launcher must not load it.
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
printf '%s %s %s\n' "$rank" "$(uname -n)" "$cpus" >"ranks/$rank"
if [ -n "${PARITY_PRELOAD:-}" ]; then
    [ -r "$PARITY_PRELOAD" ] || { echo "rank.sh: $PARITY_PRELOAD: cannot be read" >&2; exit 1; }
    LD_PRELOAD=$PARITY_PRELOAD
    export LD_PRELOAD
fi
exec "$@"
