#!/usr/bin/env bash
# A cluster of three on one machine: a server of NATS on loopback, and the nodes n1, n2 and n3.
#
#   cluster.sh start [FOLDER]      starts all of it, and prints how to ask it
#   cluster.sh server FOLDER       starts the server again
#   cluster.sh node FOLDER NAME    starts a node again
#   cluster.sh stop FOLDER         ends what runs
#
# Needs nats-server (apt install nats-server) and monitor with the feature nats. MONITOR names the
# program, BACKEND what reads processes, HOST and PORT the loopback address, HTTP_PORT the port of
# the page of n1, which is a gateway. `monitor cluster init` writes configurations, certificates and
# keys to FOLDER, where logs and process ids are too. On a site each node is a host: docs/CLUSTER.md.
set -euo pipefail
umask 077

MONITOR=${MONITOR:-monitor}
BACKEND=${BACKEND:-auto}
HOST=${HOST:-127.0.0.1}
# Not 4222, which a server of the machine may have.
PORT=${PORT:-14222}
HTTP_PORT=${HTTP_PORT:-19464}
NODES="n1 n2 n3"
# Seconds that anything may take to start.
DEADLINE=${DEADLINE:-60}

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

# Repeats a command until it succeeds.
wait_for() {
    local what=$1 end=$((SECONDS + DEADLINE))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "not within $DEADLINE s: $what; see the logs in $FOLDER"
        sleep 0.05
    done
}

# Keys, certificates and configurations; what exists is kept. n1 and n2 remove dead members, and
# users of n1 may control processes on all nodes, while those of others only observe.
init() {
    "$MONITOR" cluster init --out "$FOLDER" --nodes 'n[1-3]' --servers "$HOST:$PORT" \
        --service 'n[1-2]' --gateways n1 --control-from n1 --in-place
    for node in $NODES; do
        # No 9P files, unless FILES_n1 and so on have the keys of the section.
        local files=FILES_$node
        grep -q '\[files\]' "$FOLDER/nodes/$node/monitor.toml" ||
            printf '[files]\n%s\n' "${!files:-socket = \"off\"}" >> "$FOLDER/nodes/$node/monitor.toml"
    done
    grep -q http "$FOLDER/nodes/n1/monitor.toml" ||
        printf '[http]\nlisten = "%s:%s"\n' "$HOST" "$HTTP_PORT" >> "$FOLDER/nodes/n1/monitor.toml"
}

start_server() {
    nats-server --config "$FOLDER/servers/$HOST/nats-server.conf" \
        >> "$FOLDER/server.log" 2>&1 < /dev/null &
    echo $! > "$FOLDER/server.pid"
    # Its own pid is in the line: another server on this port is not taken for it.
    wait_for "the server listens on $HOST:$PORT" grep -q "^\[$!\].* Server is ready" \
        "$FOLDER/server.log"
}

start_node() {
    local folder=$FOLDER/nodes/$1
    "$MONITOR" serve --backend "$BACKEND" --socket "$folder/monitor.sock" \
        --config "$folder/monitor.toml" >> "$folder/log" 2>&1 < /dev/null &
    echo $! > "$folder/pid"
}

# Whether a node sees as many members as there are nodes.
sees_all() {
    local states
    states=$("$MONITOR" nodes --format json --within 5s --socket "$FOLDER/nodes/$1/monitor.sock")
    [ "$(grep -o '"state":"up"' <<< "$states" | wc -l)" = "$(wc -w <<< "$NODES")" ]
}

stop_process() {
    local pid
    [ -e "$1" ] || return 0
    pid=$(cat "$1")
    kill "$pid" 2> /dev/null || true
    local end=$((SECONDS + DEADLINE))
    # A process that was started by this shell is a zombie until the shell ends.
    while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2> /dev/null; do
        [ $SECONDS -lt $end ] || kill -KILL "$pid" 2> /dev/null || true
        sleep 0.05
    done
    rm -f "$1"
}

stop() {
    for node in $NODES; do
        stop_process "$FOLDER/nodes/$node/pid"
    done
    stop_process "$FOLDER/server.pid"
}

start() {
    command -v nats-server > /dev/null || fail "nats-server is missing: apt install nats-server"
    trap '[ $? = 0 ] || stop' EXIT
    init
    start_server
    for node in $NODES; do
        start_node "$node"
    done
    for node in $NODES; do
        wait_for "node $node sees all others" sees_all "$node"
    done
    echo "A cluster of three runs in $FOLDER. Try:"
    echo "  export MONITOR_SOCKET=$FOLDER/nodes/n1/monitor.sock"
    echo "  $MONITOR nodes"
    echo "  $MONITOR ask --nodes n[1-3] '1 [0] job_list()'"
    echo "  $MONITOR cluster doctor --config $FOLDER/nodes/n1/monitor.toml"
    echo "  $MONITOR top --nodes @*"
    echo "  curl http://$HOST:$HTTP_PORT/metrics"
    echo "  $0 stop $FOLDER"
}

ACTION=${1:-start}
FOLDER=${2:-}
if [ "$ACTION" = start ] && [ -z "$FOLDER" ]; then
    FOLDER=$(mktemp -d)
fi
[ -n "$FOLDER" ] || fail "which folder? $0 $ACTION FOLDER"
case "$ACTION" in
    start) start ;;
    server) start_server ;;
    node) start_node "${3:?which node?}" ;;
    stop) stop ;;
    *) fail "unknown action $ACTION: start, server, node or stop" ;;
esac
