//! This node's facts, files, disks, message queues and static probes.
//!
//! Only regular files are opened and only file systems of devices are queried: a pipe or an
//! unresponsive server would block all clients.

use super::{Linux, diag_probe_counters};
use crate::message_queue::{self, QueueChange, QueueContent, QueueDetail};
use crate::node::{DiagProbeCount, FileLayout, FileSystemSpace};
use crate::{DiagProbes, Disks, MessageQueues, NodeFacts, NodeInfo, status_map::symbol_refusal};
use monitor_backends::host::{self, MountedDevice};
use monitor_event::outcome::Refusal;
use monitor_model::{BackendKind, DiagOrigin, Identity, NodeField, NodeRow, Ns, Pid};
use monitor_omis::Status;
use monitor_symbols::error::SymbolError;
use monitor_sys::extents::extents;
use std::{
    collections::BTreeSet, fs::File, io, os::fd::AsFd as _, os::unix::ffi::OsStringExt as _,
    os::unix::fs::MetadataExt as _, path::Path, task::Poll,
};

impl Disks for Linux {
    fn file_layout(&mut self, id: Identity, descriptor: u32) -> Result<FileLayout, Refusal> {
        let link = format!("/proc/{}/fd/{descriptor}", id.pid.0);
        let facts = std::fs::metadata(&link).map_err(|why| refused("inspect", &link, &why))?;
        if !facts.is_file() {
            let text = format!("descriptor {descriptor} is no regular file: it is on no disk");
            return Err(Refusal::new(Status::WRONG_STATE, text));
        }
        let path = std::fs::read_link(&link).map_err(|why| refused("read", &link, &why))?;
        let file = File::open(&link).map_err(|why| refused("open", &link, &why))?;
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
    fn queued_messages(
        &mut self,
        id: Identity,
        depth: QueueDetail,
    ) -> Result<QueueContent, Refusal> {
        on_this_node(id, |proc, pid| message_queue::read(proc, pid, depth))
    }

    fn send_buffer(&mut self, id: Identity) -> Result<(u64, u64), Refusal> {
        on_this_node(id, message_queue::send_buffer)
    }

    fn insert_message(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::insert(proc, pid, position, content))
    }

    fn remove_message(&mut self, id: Identity, position: usize) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::remove(proc, pid, position))
    }

    fn mark_message(
        &mut self,
        id: Identity,
        buffer: u64,
        mark: i32,
    ) -> Result<QueueChange, Refusal> {
        on_this_node(id, |proc, pid| message_queue::mark(proc, pid, buffer, mark))
    }
}

fn on_this_node<T>(
    id: Identity,
    read: impl Fn(&Path, Pid) -> Result<T, SymbolError>,
) -> Result<T, Refusal> {
    read(Path::new("/proc"), id.pid).map_err(|error| symbol_refusal(&error))
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
        cpus: row.get(NodeField::Cpus),
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
