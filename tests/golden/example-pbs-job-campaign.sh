#!/bin/bash -l
#PBS -N parity-campaign
#PBS -l select=1:ncpus=1:mem=1gb
#PBS -l place=free
#PBS -l walltime=8:00:00
#PBS -r y
#PBS -q gpuq
#PBS -A benchmark
#PBS -J 0-7%1
# Campaign all-again on example-pbs: 8 steps, partitions in turn. To go on after an interruption, submit
# this again: finished steps are left out.
exec 2>&1
cd -- '/a check out' || exit 4
index=${PBS_ARRAY_INDEX:-}
steps=(     # partition, nodes, repeat
    'gpu 1 1'
    'cpu 1 1'
    'gpu 4 1'
    'cpu 4 1'
    'cpu 1 2'
    'gpu 1 2'
    'cpu 4 2'
    'gpu 4 2'
)
measured='/a check out/results/campaigns/example-pbs-all-again'
mkdir -p -- "$measured" || exit 4

# Measure a step, with ci/nightly's exit code. Slower or missing counts as measured; only infrastructure is tried again.
measure() {
    local partition nodes repeat mark code
    read -r partition nodes repeat <<<"$1"
    mark=$measured/$partition-nodes-$nodes-repeat-$repeat
    if [ -e "$mark" ]; then
        echo "parity: measured before: $partition, $nodes nodes, repeat $repeat"
        return "$(cat -- "$mark")"
    fi
    local options=(--system example-pbs:"$partition" --time-limit 7.83)
    [ "$nodes" = 1 ] || options+=(-S "nodes=$nodes")
    ci/nightly --repeats=1 "${options[@]}" --session-extras "campaign=all-again,repeat=$repeat,nodes=$nodes"
    code=$?
    case $code in
        0 | 1 | 3) echo "$code" >"$mark" ;;
        2) ;;
        *) code=4 ;;        # killed, for instance
    esac
    return "$code"
}

if [ -n "$index" ]; then
    measure "${steps[$index]}"
    exit
fi
worst=0
for step in "${steps[@]}"; do
    measure "$step"
    code=$?
    for severe in 2 1 4 3; do     # the precedence of parity's exit codes
        if [ "$code" = "$severe" ] || [ "$worst" = "$severe" ]; then worst=$severe; break; fi
    done
    [ "$worst" != 2 ] || break
done
exit "$worst"
