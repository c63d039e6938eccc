#!/bin/bash
# Usage: (. ./modules.sh NAME...) Tell the first module that is not loaded, why, and what is valid. `module load` may end
# with 0 although it loaded nothing, and programs on PATH would run in place of the module's.

# The file decides where the name is an alias or means a version
loaded() {
    case ":${LOADEDMODULES-}:" in *":$1:"* | *":$1/"*) return ;; esac
    local file
    file=$(module show "$1" 2>&1 | sed -n 's|^ *\(/.*\):$|\1|p' | head -n 1)
    case ":${_LMFILES_-}:" in *":${file:-?}:"*) ;; *) return 1 ;; esac
}
# The modules below which Lmod finds this one: the first of its lists
below() {
    module spider "$1" 2>&1 | sed -n '/need to load all module/,$ { s/^ \{4,\}\([^ ]*\/.*[^ ]\) *$/\1/p }' | head -n 1
}
# The names that start like this one, with their versions
like() {
    module -t avail 2>&1 | sed 's/(.*//' | grep -v '[/:]$' | grep -F -- "${1%%/*}" | sort -u | head -n 8 | paste -sd ' '
}

for module; do
    loaded "$module" && continue
    said=$(module load "$module" 2>&1 >/dev/null | sed 's/^Lmod has detected the following error: *//' |
        grep '[^[:space:]-]' | grep -v '^Loading ' | head -n 2 | tr -s ' \t\n' ' ')
    said=${said# } said=${said% }
    if ! type module >/dev/null 2>&1; then
        why='this login shell has no module command; a file of /etc/profile.d defines it'
    elif module load "$module" >/dev/null 2>&1 && loaded "$module"; then
        why='behind the others it loads; put it behind those that it needs or that unload it'
    elif others=$(below "$module") && [ -n "$others" ]; then
        why="it is below others; put these before it: $others"
    else
        names=$(like "$module")
        case " $names" in
            *" $module "* | *" $module/"* | *" $module") why="${said:-its file ends before it sets anything}" ;;
            ' ') why="$said; a hierarchy shows it behind its compiler and MPI; MODULEPATH=${MODULEPATH-}" ;;
            *) why="$said; valid: $names" ;;
        esac
    fi
    echo "parity: module $module is not loaded: $why" >&2
    exit 2
done
