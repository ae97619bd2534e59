#!/bin/sh
# Metrics of the 20 busiest processes for the textfile collector of node_exporter.
#   textfile.sh DIRECTORY
# The collector may read at any time, so the file is replaced atomically.
set -eu
monitor=${MONITOR:-monitor}
"$monitor" sample all --top 20 --format prometheus --output "$1/.monitor.prom.new"
mv "$1/.monitor.prom.new" "$1/monitor.prom"
