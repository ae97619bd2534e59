#!/usr/bin/env bash
# A cluster of three on one machine: a server of NATS on loopback, and the nodes n1, n2 and n3.
#
#   cluster.sh start [FOLDER]      starts all of it, and prints how to ask it
#   cluster.sh server FOLDER       starts the server again, where it was
#   cluster.sh node FOLDER NAME    starts a node again
#   cluster.sh stop FOLDER         ends what runs
#
# Needs nats-server (apt install nats-server) and monitor with the feature nats. MONITOR names the
# program, BACKEND what reads processes, HOST the loopback address. Configurations, credentials,
# logs and process ids are in FOLDER. On a site each node is a host, and the server is not on
# loopback: docs/CLUSTER.md.
set -euo pipefail
umask 077

MONITOR=${MONITOR:-monitor}
BACKEND=${BACKEND:-auto}
HOST=${HOST:-127.0.0.1}
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

password() {
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# What a node may publish: entries and replies under its own name, and questions to JetStream.
# Only nodes that remove dead members may publish the last subject.
permissions() {
    local node=$1
    local subjects="\"mon.cmd.$node.*\", \"mon.r.$node.>\", \"mon.s.$node\", \"mon.ev.$node\""
    subjects+=", \"mon.hb.$node\", \"\$KV.mon_members.$node\", \"\$KV.mon_lease.>\", \"\$JS.ACK.>\""
    subjects+=", \"\$JS.FC.>\", \"\$JS.API.INFO\", \"\$JS.API.STREAM.CREATE.*\""
    subjects+=", \"\$JS.API.STREAM.INFO.*\", \"\$JS.API.STREAM.MSG.GET.*\", \"\$JS.API.CONSUMER.>\""
    subjects+=", \"\$JS.API.DIRECT.GET.>\""
    [ "$node" = n3 ] || subjects+=", \"mon.cmd.*.removed\""
    echo "{ publish: [$subjects], subscribe: [\"mon.>\", \"_INBOX.>\"] }"
}

# Accounts with users, and no authorization outside of them: what knows no password has no access.
write_server_config() {
    {
        echo "host: \"$HOST\""
        echo "port: $1"
        echo "ports_file_dir: \"$FOLDER\""
        echo "jetstream { store_dir: \"$FOLDER/store\" }"
        echo "accounts { MONITOR {"
        echo "  jetstream: enabled"
        echo "  users: ["
        for node in $NODES; do
            IFS=: read -r user secret < "$FOLDER/$node/credentials"
            echo "    { user: \"$user\", password: \"$secret\", permissions: $(permissions "$node") }"
        done
        echo "  ]"
        echo "} }"
    } > "$FOLDER/server.conf"
}

start_server() {
    rm -f "$FOLDER"/*.ports
    nats-server --config "$FOLDER/server.conf" >> "$FOLDER/server.log" 2>&1 < /dev/null &
    echo $! > "$FOLDER/server.pid"
    wait_for "the server listens" grep -q nats:// "$FOLDER/nats-server_$!.ports"
    SERVER=$(grep -o 'nats://[0-9.:]*' "$FOLDER/nats-server_$!.ports" | head -1)
}

write_node_config() {
    local node=$1 removes_dead=true
    # One of the nodes with this task does it; another one goes on if that is dead.
    [ "$node" != n3 ] || removes_dead=false
    cat > "$FOLDER/$node/monitor.toml" <<- CONFIG
	[cluster]
	servers = ["$SERVER"]
	credentials = "$FOLDER/$node/credentials"
	node = "$node"
	ledger = "$FOLDER/$node/ledger"
	removes_dead = $removes_dead
	# Users of n1 may control processes on all nodes; those of others only observe.
	control_from = "n1"
	[files]
	socket = "off"
	CONFIG
}

start_node() {
    local folder=$FOLDER/$1
    "$MONITOR" serve --backend "$BACKEND" --socket "$folder/monitor.sock" \
        --config "$folder/monitor.toml" >> "$folder/log" 2>&1 < /dev/null &
    echo $! > "$folder/pid"
}

# Whether a node sees as many members as there are nodes.
sees_all() {
    local states
    states=$("$MONITOR" nodes --format json --within 5s --socket "$FOLDER/$1/monitor.sock")
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
        stop_process "$FOLDER/$node/pid"
    done
    stop_process "$FOLDER/server.pid"
}

start() {
    command -v nats-server > /dev/null || fail "nats-server is missing: apt install nats-server"
    trap '[ $? = 0 ] || stop' EXIT
    for node in $NODES; do
        mkdir -p "$FOLDER/$node"
        echo "$node:$(password)" > "$FOLDER/$node/credentials"
    done
    # The kernel chooses a port, which the server then keeps.
    write_server_config -1
    start_server
    write_server_config "${SERVER##*:}"
    for node in $NODES; do
        write_node_config "$node"
        start_node "$node"
    done
    for node in $NODES; do
        wait_for "node $node sees all others" sees_all "$node"
    done
    echo "A cluster of three runs in $FOLDER. Try:"
    echo "  export MONITOR_SOCKET=$FOLDER/n1/monitor.sock"
    echo "  $MONITOR nodes"
    echo "  $MONITOR ask --nodes n[1-3] '1 [0] job_list()'"
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
