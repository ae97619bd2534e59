//! Facts of the host that determine how well a backend can work.
//!
//! In: the root of the file system, which tests replace. Out: one [`HostFact`] each, with what it
//! blocks and what to do. A missing file is a fact too. Nothing is tried here: the backends do
//! that.

use super::environment::EnvironmentReader;
use super::procfs::hidepid::Hidepid;
use monitor_model::Ns;
use monitor_model::environment::{EnvironmentSource, EnvironmentSourceState};
use monitor_proc::status;
use monitor_sys::clock;
use monitor_sys::memory::memlock_limits_maps;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};

/// The host, as far as backends depend on it.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Kernel release, as printed by `uname -r`.
    pub kernel: String,
    /// Effective user id.
    pub uid: u32,
    /// Whether the kernel has BTF.
    pub btf: bool,
    /// The facts.
    pub facts: Vec<HostFact>,
}

/// Host name of the node.
pub fn name() -> std::sync::Arc<str> {
    rustix::system::uname().nodename().to_string_lossy().into()
}

/// Boot id of the node (random(4)); empty if it cannot be read.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// How old the CPU time of a running thread can be: a tick, and a second where processors run
/// without ticks (`sched_tick_remote` of kernel/sched/core.c).
pub fn accounting_delay() -> Ns {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    match text.trim() {
        "" | "(null)" => clock::scheduler_tick(),
        _ => Ns(1_000_000_000),
    }
}

/// Its architecture, as printed by `uname -m`.
pub fn architecture() -> String {
    rustix::system::uname().machine().to_string_lossy().into_owned()
}

/// Bytes available to users in the file system of this folder.
pub fn disk_space(folder: &Path) -> Option<u64> {
    space(folder).map(|[_, _, available, ..]| available)
}

/// A file system mounted from a device.
pub struct MountedDevice {
    /// Mount point.
    pub path: PathBuf,
    /// The device.
    pub source: String,
}

/// The file systems mounted from devices of this node, each once.
pub fn mounted() -> std::io::Result<Vec<MountedDevice>> {
    let failed = |why: procfs::ProcError| std::io::Error::other(why.to_string());
    let all = procfs::process::Process::myself().and_then(|it| it.mountinfo()).map_err(failed)?;
    let mut seen = std::collections::HashSet::new();
    let mut found = Vec::new();
    for it in all {
        let source = it.mount_source.unwrap_or_default();
        if source.starts_with("/dev/") && seen.insert(it.majmin) {
            found.push(MountedDevice { path: it.mount_point, source });
        }
    }
    Ok(found)
}

/// Of the file system of a folder: size, free and available bytes; maximum and free number of
/// files.
pub fn space(folder: &Path) -> Option<[u64; 5]> {
    let it = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(it.f_frsize);
    Some([bytes(it.f_blocks), bytes(it.f_bfree), bytes(it.f_bavail), it.f_files, it.f_ffree])
}

/// A device number as `major:minor`.
pub fn device(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// Its addresses, and `localhost`.
pub fn addresses() -> Vec<String> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let mut names: Vec<String> = all.iter().map(|it| it.ip().to_string()).collect();
    names.push("localhost".into());
    names
}

/// One fact of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFact {
    /// What was read.
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// What it blocks, and what to do.
    pub blocks: Option<(&'static str, &'static str)>,
}

/// Relevant capabilities, by number (linux/capability.h).
const CAPABILITIES: &[(u32, &str)] = &[
    (2, "CAP_DAC_READ_SEARCH"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;

impl Host {
    /// Reads the host whose files are below `root`.
    pub fn read(root: &Path) -> Self {
        let effective = effective_capabilities(root);
        let btf = exists(root, "sys/kernel/btf/vmlinux");
        let mut facts = vec![
            capabilities(effective),
            present("BTF", btf, "eBPF", "boot a kernel with CONFIG_DEBUG_INFO_BTF=y"),
            lockdown(root),
            unprivileged_bpf(root, effective),
            tracefs(root),
            hidepid(root),
            memlock(),
            cgroups(root),
        ];
        facts.extend(environment(root));
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Self { kernel, uid: rustix::process::geteuid().as_raw(), btf, facts }
    }
}

fn capabilities(effective: u64) -> HostFact {
    let held = CAPABILITIES.iter().filter(|(bit, _)| effective & 1 << bit != 0);
    let held: Vec<_> = held.map(|(_, name)| *name).collect();
    let enough =
        effective & CAP_PERFMON_AND_BPF == CAP_PERFMON_AND_BPF || effective & CAP_SYS_ADMIN != 0;
    HostFact {
        name: "capabilities",
        value: if held.is_empty() { "none".into() } else { held.join(" ") },
        blocks: (!enough).then_some(("eBPF", "run as root, or grant CAP_BPF and CAP_PERFMON")),
    }
}

fn lockdown(root: &Path) -> HostFact {
    let text = text(root, "sys/kernel/security/lockdown");
    let mode = text.as_deref().map_or("none", chosen);
    HostFact {
        name: "lockdown",
        value: mode.into(),
        blocks: (mode == "confidentiality")
            .then_some(("eBPF", "boot with lockdown=integrity or without it")),
    }
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or("none", |(word, _)| word)
}

fn unprivileged_bpf(root: &Path, effective: u64) -> HostFact {
    let value = text(root, "proc/sys/kernel/unprivileged_bpf_disabled");
    let refused = effective == 0 && value.as_deref() != Some("0");
    HostFact {
        name: "unprivileged_bpf_disabled",
        value: value.unwrap_or_else(|| "absent".into()),
        blocks: refused.then_some(("eBPF without privilege", "grant CAP_BPF and CAP_PERFMON")),
    }
}

/// The sources of faults and limits: what is missing blocks nothing but its events.
fn environment(root: &Path) -> Vec<HostFact> {
    let fact = |it: EnvironmentSourceState| {
        let name = match it.source {
            EnvironmentSource::Ecc => "events ecc",
            EnvironmentSource::MachineCheck => "events machine-check",
            EnvironmentSource::Thermal => "events thermal",
            EnvironmentSource::Infiniband => "events infiniband",
            EnvironmentSource::Pcie => "events pcie",
            EnvironmentSource::Oom => "events oom",
        };
        let value = match it.values {
            Ok(count) => format!("{count} values"),
            Err(why) => format!("none: {why}"),
        };
        HostFact { name, value, blocks: None }
    };
    EnvironmentReader::new(root).sources().into_iter().map(fact).collect()
}

fn tracefs(root: &Path) -> HostFact {
    let mounts = text(root, "proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().any(|line| line.split(' ').nth(2) == Some("tracefs"));
    let fix = "mount -t tracefs tracefs /sys/kernel/tracing";
    present("tracefs", mounted, "classic tracepoints and kprobes of old kernels", fix)
}

fn hidepid(root: &Path) -> HostFact {
    let Hidepid { level, from_us, .. } = Hidepid::read(&root.join("proc"), Path::new("/proc"));
    HostFact {
        name: "hidepid",
        value: level.unwrap_or_else(|| "off".into()),
        blocks: from_us
            .then_some(("processes of other users in /proc", "mount -o remount,hidepid=0 /proc")),
    }
}

fn memlock() -> HostFact {
    let limit = getrlimit(Resource::Memlock).current;
    HostFact {
        name: "RLIMIT_MEMLOCK",
        value: limit.map_or("unlimited".into(), |bytes| format!("{bytes} bytes")),
        blocks: (limit.is_some() && memlock_limits_maps())
            .then_some(("BPF maps", "ulimit -l unlimited, or grant CAP_SYS_RESOURCE")),
    }
}

/// Mount points of the unified hierarchy, and the kind of such a host.
const HIERARCHIES: [(&str, &str); 2] =
    [("sys/fs/cgroup", "unified"), ("sys/fs/cgroup/unified", "hybrid")];

/// The root of the unified hierarchy, if there is one.
pub fn cgroup_root() -> Option<PathBuf> {
    hierarchy(Path::new("/")).map(|(folder, _)| Path::new("/").join(folder))
}

fn hierarchy(root: &Path) -> Option<&'static (&'static str, &'static str)> {
    HIERARCHIES.iter().find(|(folder, _)| exists(root, &format!("{folder}/cgroup.controllers")))
}

fn cgroups(root: &Path) -> HostFact {
    let found = hierarchy(root);
    let value = found.map_or("version 1 only", |(_, value)| value);
    let blocked = ("cgroup and --cgroup", "mount the unified hierarchy (cgroup v2)");
    HostFact { name: "cgroups", value: value.into(), blocks: found.is_none().then_some(blocked) }
}

fn present(name: &'static str, is: bool, blocks: &'static str, fix: &'static str) -> HostFact {
    let value = if is { "yes" } else { "no" }.to_owned();
    HostFact { name, value, blocks: (!is).then_some((blocks, fix)) }
}

/// `CapEff` of `/proc/self/status`; 0 if it cannot be read.
fn effective_capabilities(root: &Path) -> u64 {
    let status = std::fs::read(root.join("proc/self/status")).unwrap_or_default();
    status::effective_capabilities(&status).unwrap_or(0)
}

/// A small file without trailing white space; none if it is missing or refused.
fn text(root: &Path, path: &str) -> Option<String> {
    Some(std::fs::read_to_string(root.join(path)).ok()?.trim_end().to_owned())
}

/// Whether a file exists and can be read.
fn exists(root: &Path, path: &str) -> bool {
    rustix::fs::openat(CWD, root.join(path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> Host {
        let root = std::env::temp_dir().join(format!("monitor-host-{:p}", files));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let host = Host::read(&root);
        let _ = std::fs::remove_dir_all(root);
        host
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], name: &str, value: &str, blocks: Option<&str>) {
        let host = host(files);
        let reading = host.facts.iter().find(|it| it.name == name).expect("a reading");
        assert_eq!((reading.value.as_str(), reading.blocks.map(|it| it.0)), (value, blocks));
    }

    #[test]
    fn capabilities_are_named() {
        let status = [("proc/self/status", "Name:\tx\nCapEff:\t000000c000000000\n")];
        check(&status, "capabilities", "CAP_PERFMON CAP_BPF", None);
        check(&[], "capabilities", "none", Some("eBPF"));
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        let file = "sys/kernel/security/lockdown";
        check(&[(file, "none [integrity] confidentiality\n")], "lockdown", "integrity", None);
        let strict = [(file, "none integrity [confidentiality]\n")];
        check(&strict, "lockdown", "confidentiality", Some("eBPF"));
    }

    #[test]
    fn hidepid_is_an_option_of_the_mount() {
        let mounts = "22 27 0:21 / /proc rw - proc proc rw,hidepid=invisible\n";
        let hidden = Some("processes of other users in /proc");
        check(&[("proc/self/mountinfo", mounts)], "hidepid", "invisible", hidden);
        let tracer = ("proc/self/status", "CapEff:\t0000000000080000\n");
        check(&[("proc/self/mountinfo", mounts), tracer], "hidepid", "invisible", None);
        let mounts = "22 27 0:21 / /proc rw - proc proc rw\n";
        check(&[("proc/self/mountinfo", mounts)], "hidepid", "off", None);
    }

    #[test]
    fn without_btf_there_is_no_ebpf() {
        check(&[], "BTF", "no", Some("eBPF"));
        check(&[("sys/kernel/btf/vmlinux", "")], "BTF", "yes", None);
    }
}
