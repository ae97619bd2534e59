#!/bin/sh
# The five commands that used most CPU in the last seconds (default 2), from the JSON form.
# Needs jq. The first sample has no rates; the second has the rates since the first.
set -eu
monitor=${MONITOR:-monitor}
"$monitor" watch --every "${1:-2}s" --count 2 --format json --fields comm,cpu_percent |
    jq -r 'select(.interval_ns) | .processes | group_by(.comm)
        | map({comm: .[0].comm, cpu: (map(.cpu_percent // 0) | add)})
        | sort_by(-.cpu)[:5][] | "\(.cpu * 10 | round / 10)%\t\(.comm)"'
