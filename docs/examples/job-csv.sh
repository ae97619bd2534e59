#!/bin/sh
# Runs a command, and writes what all processes with its name use to a CSV file, once a second.
#   job-csv.sh FILE COMMAND ARGS…
set -eu
monitor=${MONITOR:-monitor}
file=$1
shift
"$monitor" watch --format csv --comm "$(basename "$1" | cut -c1-15)" \
    --fields pid,comm,cpu_percent,run_delay_percent,rss_bytes,read_bytes_per_s,written_bytes_per_s \
    --output "$file" &
watcher=$!
status=0
"$@" || status=$?
kill "$watcher"
wait "$watcher"
exit "$status"
