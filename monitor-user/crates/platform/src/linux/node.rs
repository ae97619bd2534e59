//! This node's facts, files, disks, message queues and static probes.
//!
//! Only regular files are opened and only file systems of devices are queried: a pipe or an
//! unresponsive server would block all clients.

use super::{Linux, diag_probe_counters, opening::Caller};
use crate::node::{DiagProbeCount, FileLayout, FileSystemSpace};
use crate::{DiagProbes, Disks, MessageQueues, NodeFacts, NodeInfo};
use monitor_backends::environment::EnvironmentReader;
use monitor_backends::host::{self, MountedDevice};
use monitor_control::{QueueAnswer, QueueQuery};
use monitor_event::outcome::Refusal;
use monitor_model::environment::EnvironmentValue;
use monitor_model::{BackendKind, DiagOrigin, Identity, NodeField, NodeRow, Ns};
use monitor_omis::Status;
use monitor_symbols::held_file::is_of_user_mount;
use monitor_sys::extents::extents;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, open, statx};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    os::unix::ffi::OsStringExt as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
    task::Poll,
};

impl Disks for Linux {
    fn file_layout(&mut self, id: Identity, descriptor: u32) -> Result<FileLayout, Refusal> {
        let process = format!("/proc/{}", id.pid.0);
        let link = format!("{process}/fd/{descriptor}");
        // Neither of these asks the file system, which may be one that does not reply.
        let held = open(&link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|why| refused("inspect", &link, &why.into()))?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let facts = statx(&held, "", flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
            .map_err(|why| refused("inspect", &link, &why.into()))?;
        if !FileType::from_raw_mode(facts.stx_mode.into()).is_file() {
            let text = format!("descriptor {descriptor} is no regular file: it is on no disk");
            return Err(Refusal::new(Status::WRONG_STATE, text));
        }
        let path = std::fs::read_link(&link).map_err(|why| refused("read", &link, &why))?;
        if is_of_user_mount(Path::new(&process), facts.stx_mnt_id) {
            let text = format!(
                "the file system of {} is in user space, or unmounted: it has no layout",
                path.display()
            );
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
        let opened = format!("/proc/self/fd/{}", held.as_raw_fd());
        let file = File::open(opened).map_err(|why| refused("open", &link, &why))?;
        let facts = file.metadata().map_err(|why| refused("inspect", &link, &why))?;
        let (extents, is_cut) = extents(file.as_fd()).map_err(|why| {
            let text = format!("the file system of {} has no layout: {why}", path.display());
            Refusal::new(Status::UNSUPPORTED, text).with_errno(why.raw_os_error().unwrap_or(0))
        })?;
        let device = host::device(facts.dev());
        let path = path.into_os_string().into_vec();
        Ok(FileLayout { path, device, size: facts.len(), extents, is_truncated: is_cut })
    }

    fn file_systems(&mut self) -> Result<Vec<FileSystemSpace>, Refusal> {
        let mounted =
            host::mounted().map_err(|why| refused("read", "/proc/self/mountinfo", &why))?;
        Ok(mounted.iter().filter_map(space).collect())
    }
}

/// One that was unmounted meanwhile has none.
fn space(it: &MountedDevice) -> Option<FileSystemSpace> {
    let [size, free, avail, files, files_free] = host::space(&it.path)?;
    let (path, source) = (it.path.display().to_string(), it.source.clone());
    Some(FileSystemSpace { path, source, size, free, avail, files, files_free })
}

fn refused(verb: &str, what: &str, why: &io::Error) -> Refusal {
    let status = match why.kind() {
        io::ErrorKind::NotFound => Status::NO_SUCH_OBJECT,
        io::ErrorKind::PermissionDenied => Status::PERMISSION,
        _ => Status::IO,
    };
    let text = format!("cannot {verb} {what}: {why}");
    Refusal::new(status, text).with_errno(why.raw_os_error().unwrap_or(0))
}

impl MessageQueues for Linux {
    fn queue(&mut self, id: Identity, query: &QueueQuery) -> Poll<Result<QueueAnswer, Refusal>> {
        self.queues.find(&(id, query.clone()))
    }
}

/// From a reading, and what a reading does not have.
fn of_host(row: &NodeRow) -> NodeFacts {
    NodeFacts {
        architecture: monitor_backends::host::architecture(),
        avail_disk: monitor_backends::host::disk_space(&std::env::temp_dir()),
        cpu_speed: cpu_mhz(Path::new("/")),
        ..of_sample(row)
    }
}

/// From a reading alone, which is the same on every machine.
fn of_sample(row: &NodeRow) -> NodeFacts {
    NodeFacts {
        architecture: "test".to_owned(),
        cpus: row.get(NodeField::OnlineCpus),
        avail_memory: row.get(NodeField::MemAvailable).or_else(|| row.get(NodeField::MemFree)),
        avail_disk: None,
        cpu_speed: None,
    }
}

/// The highest frequency of the first processor; where the system does not scale it, the value of
/// `/proc/cpuinfo`.
fn cpu_mhz(root: &Path) -> Option<u64> {
    let scaled = root.join("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if let Ok(khz) = std::fs::read_to_string(scaled) {
        return khz.trim().parse::<u64>().ok().map(|khz| khz / 1000);
    }
    let text = std::fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split_once(':')?.1.trim().parse().ok()?;
    // A few thousand: no bits are lost.
    Some(mhz.round() as u64)
}

impl NodeInfo for Linux {
    fn node_facts(&mut self) -> Result<NodeFacts, Refusal> {
        let poller = self.poller()?;
        let row = poller.node()?.row;
        Ok(match poller.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => of_host(&row),
            BackendKind::Test | BackendKind::Unsupported => of_sample(&row),
        })
    }

    fn read_environment(&mut self) -> Poll<Vec<EnvironmentValue>> {
        // A port may wait for its hardware: other requests do not.
        let caller = if self.opens_beside { Caller::Returns } else { Caller::Waits };
        let read = || Ok(EnvironmentReader::new(Path::new("/")).read());
        match self.environment.poll(caller, &self.opening_waker, read) {
            Some(values) => Poll::Ready(values.unwrap_or_default()),
            None => Poll::Pending,
        }
    }
}

impl DiagProbes for Linux {
    fn diag_origin(&mut self, id: Identity) -> DiagOrigin {
        diag_probe_counters::diag_origin(id)
    }

    fn check_diag_probes(&mut self, id: Identity) -> Poll<Result<(), Refusal>> {
        self.diag_counters.check(id)
    }

    fn count_diag_probes(&mut self, processes: &BTreeSet<Identity>) {
        self.diag_counters.set_processes(processes);
    }

    fn take_diag_counts(&mut self) -> Vec<DiagProbeCount> {
        self.diag_counters.take_counts()
    }

    fn unix_time(&self, at: Ns) -> Ns {
        diag_probe_counters::unix_time(at)
    }
}
