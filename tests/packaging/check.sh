#!/bin/sh
# Tests installation, upgrade and removal of the Debian packages, and the static program alone.
#
# In: a later version of `monitor` with a different configuration, the static program, the packages.
# Out: the first error, if any. Runs in its own mount namespace (created by `cargo xtask dist --check`) on
# an in-memory overlay of this machine's files.
set -eu
new=$1 single=$2
shift 2

wrong() {
    echo "check.sh: $*" >&2
    exit 1
}

# The overlay. dpkg runs its scripts inside, without systemd, as when an image is built.
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/scratch" "$work/root" "$work/alone"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" "$work/root"
for dir in proc sys dev; do
    mount --rbind "/$dir" "$work/root/$dir"
done
mount -t tmpfs tmpfs "$work/root/run"
mkdir "$work/root/packages"
cp "$@" "$work/root/packages"
cp "$new" "$work/root/new.deb"

# Remove a monitor that is installed on this machine.
inside() {
    chroot "$work/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
inside dpkg --purge libomis-dev libomis1 monitor > /dev/null 2>&1 || true
for package in adduser init-system-helpers; do
    inside dpkg -s "$package" > /dev/null 2>&1 ||
        wrong "the package depends on $package: apt-get install $package"
done

inside sh -c 'dpkg --install /packages/*.deb' || wrong "the packages cannot be installed"
inside monitor --version | grep -q '^monitor ' || wrong "monitor --version fails"
inside monitor config check /etc/monitor/monitor.toml || wrong "the configuration is rejected"
inside monitor sample --backend procfs --top 1 > /dev/null || wrong "monitor sample fails"
inside monitor record /r.mon --local --backend test --every 10ms --count 3 ||
    wrong "monitor record fails"
inside monitor export /r.mon --format parquet --output /r.parquet || wrong "monitor export fails"
[ "$(head -c 4 "$work/root/r.parquet")" = PAR1 ] || wrong "the export is not a Parquet file"
inside getent passwd monitor > /dev/null || wrong "the user of the daemon does not exist"
[ -z "$(find "$work/root/etc/systemd" -name 'monitor-rendezvous.service')" ] ||
    wrong "the rendezvous is enabled"
for file in usr/lib/systemd/system/monitor.service usr/share/man/man1/monitor-serve.1.gz \
    usr/lib/systemd/system/monitor-rendezvous.service \
    usr/share/bash-completion/completions/monitor usr/share/zsh/vendor-completions/_monitor \
    usr/share/fish/vendor_completions.d/monitor.fish; do
    [ -s "$work/root/$file" ] || wrong "$file is missing"
done
inside gzip --test /usr/share/man/man1/monitor-serve.1.gz || wrong "the manual page is broken"

# The C library is found by its name alone.
printf '#include <omis.h>\nint main(void) { return OMIS_request_block == 0; }\n' > "$work/root/omis.c"
inside cc -o /omis /omis.c -lomis || wrong "a C program cannot be linked with -lomis"
inside /omis || wrong "a C program cannot find libomis.so.1"

# Changes of the administrator are kept.
config=$work/root/etc/monitor/monitor.toml
sed -i 's/^#monitors = .*/monitors = 17/' "$config"
grep -q '^monitors = 17$' "$config" || wrong "the configuration has no line for monitors"
inside dpkg --force-confdef --force-confold --install /new.deb || wrong "the upgrade fails"
grep -q '^monitors = 17$' "$config" || wrong "the upgrade lost the configuration"
inside dpkg -s monitor | grep -q '^Version: .*+next$' || wrong "the old version is still installed"

inside dpkg --remove monitor || wrong "the package cannot be removed"
[ ! -e "$work/root/usr/bin/monitor" ] || wrong "the program is still installed"
grep -q '^monitors = 17$' "$config" || wrong "removing lost the configuration"
inside dpkg --purge libomis-dev libomis1 monitor || wrong "the packages cannot be purged"
inside ldconfig -p | grep -q libomis && wrong "ldconfig still finds the C library"
left=$(find "$work/root/etc" "$work/root/usr" "$work/root/var/lib/systemd" -name '*monitor*.service*' \
    -o -path '*/etc/monitor*' | head)
[ -z "$left" ] || wrong "left behind: $left"

# The single file: no library, no shell, no /proc.
cp "$single" "$work/alone/monitor"
chroot "$work/alone" /monitor --version | grep -q '^monitor ' || wrong "the static program needs more"
# A library that it opens would bring a second C library.
"$single" job launch -n 1 -- true 2>&1 | grep -q 'linked statically' ||
    wrong "the static program opens libraries"
echo "installed, upgraded, removed and purged; the static program runs alone"
