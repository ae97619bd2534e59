#!/usr/bin/env bash
# A cluster of three nodes on one machine, each with its own network, host name and processes.
#
#   namespaces.sh start FOLDER               starts all of it, and prints how to use it
#   namespaces.sh enter FOLDER NODE COMMAND  executes a command on a node
#   namespaces.sh mpirun FOLDER WORDS        mpirun of Open MPI 5 on n1, with ranks on all nodes
#   namespaces.sh cut FOLDER NODE            takes the link of a node down
#   namespaces.sh join FOLDER NODE           takes it up again
#   namespaces.sh kill FOLDER NODE           kills the daemon of a node
#   namespaces.sh serve FOLDER NODE          starts it again
#   namespaces.sh stop FOLDER                ends all of it
#
# Needs root, nats-server, iproute2, util-linux, and monitor with the feature nats. MONITOR names
# the program, MPI the folder of Open MPI. A node is a network, UTS and PID namespace, in which a
# daemon of its own shows the processes of that namespace alone; the server is in a network
# namespace that has a bridge to all of them. Nothing of it is in the network of the machine.
set -euo pipefail
umask 077

MONITOR=${MONITOR:-monitor}
MPI=${MPI:-/usr}
NODES="n1 n2 n3"
NETWORK=10.77.0
SERVER=$NETWORK.254
# Seconds that anything may take to start.
DEADLINE=${DEADLINE:-60}

fail() {
    echo "namespaces.sh: $*" >&2
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

# Executes a command in the network namespace of the server.
in_hub() {
    nsenter --target "$(cat "$FOLDER/hub.pid")" --net "$@"
}

# Executes a command on a node, below the root folder of the node (this may be a chroot), and with a
# folder for temporary files that is its own; it replaces the shell.
enter() {
    local folder=$FOLDER/nodes/$1
    shift
    TMPDIR=$folder/tmp exec nsenter --target "$(cat "$folder/init.pid")" \
        --net --uts --pid --mount --root -- "$@"
}

# Whether the namespace of this kind of a process is another one than that of this shell.
is_apart() {
    [ "$(readlink "/proc/$1/ns/$2")" != "$(readlink "/proc/$$/ns/$2")" ]
}

start_hub() {
    unshare --net sleep infinity > /dev/null 2>&1 < /dev/null &
    echo $! > "$FOLDER/hub.pid"
    wait_for "the network of the server" is_apart $! net
    in_hub ip link set lo up
    in_hub ip link add hub type bridge
    in_hub ip address add "$SERVER/24" dev hub
    in_hub ip link set hub up
}

start_server() {
    nsenter --target "$(cat "$FOLDER/hub.pid")" --net \
        nats-server --config "$FOLDER/servers/$SERVER/nats-server.conf" \
        >> "$FOLDER/server.log" 2>&1 < /dev/null &
    echo $! > "$FOLDER/server.pid"
    wait_for "the server listens" grep -q "Server is ready" "$FOLDER/server.log"
}

# The first process of a node: waits for those that are left to it, and executes what is written to
# the pipe of the node, as a daemon of ssh would. /etc/hosts has the names of all nodes.
# shellcheck disable=SC2016 # The variables are those of the inner shell.
INIT='
    hostname "$2"
    mount --bind "$1/hosts" /etc/hosts
    export TMPDIR=$1/nodes/$2/tmp
    exec 3<> "$1/nodes/$2/commands"
    while read -r command <&3; do
        sh -c "$command" 3>&- >> "$1/nodes/$2/commands.log" 2>&1 < /dev/null &
    done'

# The child of unshare(1), which is the first process of a PID namespace.
child_of() {
    local child
    child=$(cat "/proc/$1/task/$1/children")
    [ -n "$child" ] && echo "${child%% *}" > "$2"
}

# A node with a link to the bridge.
start_node() {
    local node=$1 folder=$FOLDER/nodes/$1 init
    mkfifo "$folder/commands"
    mkdir "$folder/tmp"
    unshare --net --uts --pid --mount --mount-proc --propagation private --fork --kill-child \
        bash -c "$INIT" bash "$FOLDER" "$node" > /dev/null 2>&1 < /dev/null &
    wait_for "the namespaces of $node" child_of $! "$folder/init.pid"
    init=$(cat "$folder/init.pid")
    in_hub ip link add "$node" type veth peer name eth0 netns "/proc/$init/ns/net"
    in_hub ip link set "$node" master hub up
    nsenter --target "$init" --net sh -c "
        ip link set lo up
        ip address add $NETWORK.${node#n}/24 dev eth0
        ip link set eth0 up"
    wait_for "the processes of $node" "$0" enter "$FOLDER" "$node" test -e /proc/1/ns
    serve "$node"
}

# The daemon of a node; its pid is that in the node.
# shellcheck disable=SC2016 # The variables are those of the inner shell.
serve() {
    local node=$1 folder=$FOLDER/nodes/$1
    "$0" enter "$FOLDER" "$node" sh -c 'echo $$ > "$0/pid"; exec "$@"' "$folder" \
        "$MONITOR" serve --backend procfs --socket "$folder/monitor.sock" \
        --config "$folder/monitor.toml" >> "$folder/log" 2>&1 < /dev/null &
}

# Whether a node sees as many members as there are nodes.
sees_all() {
    local states
    states=$("$MONITOR" nodes --format json --within 5s --socket "$FOLDER/nodes/$1/monitor.sock")
    [ "$(grep -o '"state":"up"' <<< "$states" | wc -l)" = "$(wc -w <<< "$NODES")" ]
}

init() {
    "$MONITOR" cluster init --out "$FOLDER" --nodes 'n[1-3]' --servers "$SERVER" \
        --service 'n[1-2]' --gateways n1 --control-from n1 --files 0.0.0.0:5641 --in-place
    for node in $NODES; do
        echo 'socket = "off"' >> "$FOLDER/nodes/$node/monitor.toml"
        echo "$NETWORK.${node#n} $node"
    done > "$FOLDER/hosts"
    echo 127.0.0.1 localhost >> "$FOLDER/hosts"
}

start() {
    [ "$(id -u)" = 0 ] || fail "namespaces need root"
    for program in nats-server ip nsenter unshare; do
        command -v $program > /dev/null || fail "$program is missing"
    done
    trap '[ $? = 0 ] || stop' EXIT
    mkdir -p "$FOLDER"
    init
    start_hub
    start_server
    for node in $NODES; do
        start_node "$node"
    done
    for node in $NODES; do
        wait_for "node $node sees all others" sees_all "$node"
    done
    echo "Three nodes run in $FOLDER. Try:"
    echo "  export MONITOR_SOCKET=$FOLDER/nodes/n1/monitor.sock"
    echo "  $MONITOR sample --nodes @* --fields pid,comm"
    echo "  MPI=/opt/openmpi $0 mpirun $FOLDER -n 6 PROGRAM"
    echo "  $MONITOR job list --nodes @*"
    echo "  $0 cut $FOLDER n3; $MONITOR nodes"
    echo "  $0 stop $FOLDER"
}

# Two ranks on each node; the agent is executed as ssh would be: the name of a node, a command.
run_mpi() {
    local agent=$FOLDER/agent
    printf '#!/bin/sh\nexec "%s" agent "%s" "$@"\n' "$(realpath "$0")" "$FOLDER" > "$agent"
    chmod 700 "$agent"
    export OPAL_PREFIX=$MPI PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    enter n1 "$MPI/bin/mpirun" --prtemca plm_ssh_agent "$agent" --host n1:2,n2:2,n3:2 \
        --map-by node --bind-to none "$@"
}

stop() {
    local file
    # The end of the first process of a namespace is that of all in it.
    for file in "$FOLDER"/nodes/*/init.pid "$FOLDER/server.pid" "$FOLDER/hub.pid"; do
        [ ! -e "$file" ] || kill -KILL "$(cat "$file")" 2> /dev/null || true
        rm -f "$file"
    done
}

ACTION=${1:?start, enter, mpirun, cut, join, kill, serve or stop}
FOLDER=$(realpath -m "${2:?which folder?}")
shift 2
case "$ACTION" in
    start) start ;;
    enter) enter "$@" ;;
    agent)
        commands=$FOLDER/nodes/${1:?which node?}/commands
        shift
        # Without the node nothing reads.
        printf '%s\n' "$*" | timeout 10 tee "$commands" > /dev/null
        ;;
    mpirun) run_mpi "$@" ;;
    cut) in_hub ip link set "${1:?which node?}" down ;;
    join) in_hub ip link set "${1:?which node?}" up ;;
    kill) enter "${1:?which node?}" kill -KILL "$(cat "$FOLDER/nodes/$1/pid")" ;;
    serve) serve "${1:?which node?}" ;;
    stop) stop ;;
    *) fail "unknown action $ACTION" ;;
esac
