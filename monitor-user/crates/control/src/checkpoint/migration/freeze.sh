#!/bin/sh
# CRIU runs this at each step of a dump (criu(8), --action-script). When the images are complete and
# the process is still held, it is frozen, so that it does nothing after what they have.
# A step that fails lets CRIU resume the process.
set -eu
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
[ ! -e "$MONITOR_ABANDONED" ] || exit 1
echo 1 > "$MONITOR_CGROUP/process/cgroup.freeze"
