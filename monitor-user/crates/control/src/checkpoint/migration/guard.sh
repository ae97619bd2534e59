#!/bin/sh
# Thaws the process if the service that dumps it is killed before it may have asked the other node
# to run a copy. The service writes a line then, or when it does not need the guard any longer.
# A CRIU that still dumps finds that it was abandoned, and resumes the process.
read -r released && exit 0
: > "$MONITOR_ABANDONED"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    echo 0 > "$MONITOR_CGROUP/process/cgroup.freeze" || exit 0
    sleep 0.2
done
