#!/bin/sh
# Usage: ./target.sh TARGET FEATURE... Tell, before a program starts, that this node's processor cannot run it.

flags=$(sed -n 's/^\(flags\|Features\)[[:space:]]*: //p' "${PARITY_CPUINFO:-/proc/cpuinfo}" | head -n 1)
target=$1 lacking=''
shift
for feature; do
    case " $flags " in
        *" $feature "*) ;;
        *) lacking="$lacking $feature" ;;
    esac
done
[ -z "$lacking" ] || {
    echo "parity: the program is built for $target; the processor of $(uname -n) lacks$lacking" >&2
    exit 2
}
