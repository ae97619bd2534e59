#!/bin/sh
# The Debian package comes, is upgraded, and goes; the static program runs without any library.
#
# In: the package, the package of a later version with another configuration, the static program.
# Out: nothing, or the first thing that is not as it should be. Runs in a mount namespace of its
# own (`cargo xtask dist --check` makes it) on an overlay of this machine's files in memory.
set -eu
old=$1 new=$2 single=$3

wrong() {
    echo "check.sh: $*" >&2
    exit 1
}

# The copy. dpkg's scripts run inside; there is no systemd in it, as in the making of an image.
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/scratch" "$work/root" "$work/alone"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" "$work/root"
for dir in proc sys dev; do
    mount --rbind "/$dir" "$work/root/$dir"
done
mount -t tmpfs tmpfs "$work/root/run"
cp "$old" "$work/root/old.deb"
cp "$new" "$work/root/new.deb"

# Nothing of a monitor that this machine may have.
inside() {
    chroot "$work/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
inside dpkg --purge monitor > /dev/null 2>&1 || true
for package in adduser init-system-helpers; do
    inside dpkg -s "$package" > /dev/null 2>&1 ||
        wrong "the package depends on $package: apt-get install $package"
done

inside dpkg --install /old.deb || wrong "the package cannot be installed"
inside monitor --version | grep -q '^monitor ' || wrong "monitor --version does not answer"
inside monitor config check /etc/monitor/monitor.toml || wrong "the configuration is not accepted"
inside monitor sample --backend procfs --top 1 > /dev/null || wrong "monitor sample fails"
inside monitor record /r.mon --local --backend test --every 10ms --count 3 ||
    wrong "monitor record fails"
inside monitor export /r.mon --format parquet --output /r.parquet || wrong "monitor export fails"
[ "$(head -c 4 "$work/root/r.parquet")" = PAR1 ] || wrong "the export is no Parquet file"
inside getent passwd monitor > /dev/null || wrong "there is no user for the service"
for file in usr/lib/systemd/system/monitor.service usr/share/man/man1/monitor-serve.1.gz \
    usr/share/bash-completion/completions/monitor usr/share/zsh/vendor-completions/_monitor \
    usr/share/fish/vendor_completions.d/monitor.fish; do
    [ -s "$work/root/$file" ] || wrong "$file is not there"
done
inside gzip --test /usr/share/man/man1/monitor-serve.1.gz || wrong "the manual page is broken"

# The library for C is found by its name alone.
printf '#include <omis.h>\nint main(void) { return OMIS_request_block == 0; }\n' > "$work/root/omis.c"
inside cc -o /omis /omis.c -lomis || wrong "a C program cannot be linked with -lomis"
inside ldconfig
inside /omis || wrong "a C program cannot find libomis.so.1"

# What an administrator wrote stays.
config=$work/root/etc/monitor/monitor.toml
sed -i 's/^#monitors = .*/monitors = 17/' "$config"
grep -q '^monitors = 17$' "$config" || wrong "the configuration has no line for monitors"
inside dpkg --force-confdef --force-confold --install /new.deb || wrong "the upgrade fails"
grep -q '^monitors = 17$' "$config" || wrong "the upgrade lost the configuration"
inside dpkg -s monitor | grep -q '^Version: .*+next$' || wrong "the old version is still there"

inside dpkg --remove monitor || wrong "the package cannot be removed"
[ ! -e "$work/root/usr/bin/monitor" ] || wrong "the program is still there"
grep -q '^monitors = 17$' "$config" || wrong "removing lost the configuration"
inside dpkg --purge monitor || wrong "the package cannot be purged"
left=$(find "$work/root/etc" "$work/root/usr" "$work/root/var/lib/systemd" -name '*monitor.service*' \
    -o -path '*/etc/monitor*' | head)
[ -z "$left" ] || wrong "left behind: $left"

# One file alone: no library, no shell, no /proc.
cp "$single" "$work/alone/monitor"
chroot "$work/alone" /monitor --version | grep -q '^monitor ' || wrong "the static program needs more"
echo "installed, upgraded, removed and purged; the static program runs alone"
