#!/bin/sh
# Run a remote shell for mpirun in a job of PBS: pbs_rsh.sh HOST COMMAND...
# PBS's own pbs_tmrsh starts a program without the job's PATH, and no shell to read the one line that mpirun passes.
host=$1
shift
if ! command -v pbs_tmrsh >/dev/null; then
    # shellcheck source=/dev/null
    PATH=$PATH:$(. "${PBS_CONF_FILE:-/etc/pbs.conf}" && echo "$PBS_EXEC")/bin
fi
exec pbs_tmrsh "$host" /usr/bin/env "PATH=$PATH" "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}" /bin/sh -c "$*"
