#!/bin/sh
# Compile one of our kernels, NAME.c, into NAME, for this node's own processor.
#     compile.sh NAME
# Compilers for POWER say -mcpu=native instead of -march=native. CC may name another compiler than cc.
name=$1
cc=${CC:-cc}
for native in -march=native -mcpu=native; do
    if "$cc" -O3 "$native" -fopenmp -o "$name" "$name.c" -ldl -lm 2>compile.err; then
        echo "compiler: $("$cc" --version | head -n 1)"
        echo "flags: -O3 $native -fopenmp"
        exit 0
    fi
done
cat compile.err >&2
exit 1
