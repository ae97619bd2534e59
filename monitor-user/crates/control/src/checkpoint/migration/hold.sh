#!/bin/sh
# CRIU runs this at each step of a restore (criu(8), --action-script). When the process is complete
# and has not executed an instruction of its own yet, it goes into its cgroup, which is frozen.
set -eu
[ "$CRTOOLS_SCRIPT_ACTION" = pre-resume ] || exit 0
echo "$CRTOOLS_INIT_PID" > "$MONITOR_CGROUP/process/cgroup.procs"
echo 1 > "$MONITOR_CGROUP/process/cgroup.freeze"
