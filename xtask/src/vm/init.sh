#!/bin/busybox sh
# The first program of a guest: makes it look like a machine, runs the tests, says how they ended.
# /run says where the sources are (ROOT), what to run (TESTS), which tests (FILTER), and whether
# processes must be dumped (CRIU).
export PATH=/bin
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
. /run

# Each module needs others, and the list is in no order: five rounds are more than the depth.
for round in 1 2 3 4 5; do
    for module in /modules/*.ko; do insmod "$module" 2>/dev/null; done
done

# This machine is the one that built the tests: same libraries, same shell, nothing written.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host || poweroff -f
for folder in proc sys dev; do mount --rbind "/$folder" "/host/$folder"; done
# Unless the sources are below it.
for folder in tmp run; do
    case "$ROOT/" in
        "/$folder/"*) ;;
        *) mount -t tmpfs "$folder" "/host/$folder" ;;
    esac
done
mount -t tracefs tracefs /host/sys/kernel/tracing
mount -t debugfs debugfs /host/sys/kernel/debug
mount -t bpf bpf /host/sys/fs/bpf
mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
# As systemd has them: groups below the root have limits.
echo +memory +pids > /host/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts devpts /host/dev/pts
# Direct I/O needs a disk below the folder that tests write to.
mount -t ext4 /dev/vda "/host$ROOT/target/tmp"
ip link set lo up
# Open MPI refuses a machine without a name.
hostname guest
ulimit -l unlimited

echo "vm: Linux $(uname -r)"
status=0
for tests in $TESTS; do
    chroot /host /usr/bin/env -i \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/dev/shm TMPDIR=/dev/shm MONITOR_REQUIRE_ROOT=1 \
        MONITOR_OWN_MACHINE=1 MONITOR_TEST_DEADLINE_S=600 $CRIU \
        sh -c "cd '$ROOT/monitor-user' && exec '$tests' $FILTER --test-threads=1 --show-output"
    code=$?
    [ $code = 0 ] || status=$code
done
echo "vm: status $status"
poweroff -f
