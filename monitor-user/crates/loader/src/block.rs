//! Block I/O by process: the tables of `bin/block.rs`.
//!
//! In: rows by owner and disk, latencies by owner. Out: the block fields of every process, its
//! disks and its histograms. The rows of ended processes are removed as they are reported; what is
//! written for them later is a total of the node. I/O on a disk that passes it on (md, dm,
//! multipath) counts on the disks below, and not here.

use crate::late_usage::LateUsage;
use crate::owner::{self, MissingOwners};
use crate::probe_reader::{ProbeConfig, ProbeReader};
use crate::{health, kernel::Kernel, object::Object};
use monitor_backend::Error;
use monitor_ebpf::abi::block::{self, Dirtier, DiskUsage, LatencyKey, OwnerDisk, READ};
use monitor_ebpf::abi::{Owner, histogram};
use monitor_model::field::{BlockField as B, ProcessField as F};
use monitor_model::{
    BlockRow, Capability, Device, Histogram, NodeRow, Ns, Percentiles, Probe, Process, Sample,
};
use monitor_sys::clock;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of files whose dirtier is stored.
const FILES_LIMIT: u32 = 1 << 16;
/// A file not dirtied for this long has been written: the kernel writes dirty pages after half a
/// minute (`vm.dirty_expire_centisecs`), later only if the disk is that far behind.
const WRITTEN_AFTER: Ns = Ns(600_000_000_000);
/// Interval of the search for such files; each file costs a microsecond.
const SWEEP_EVERY: Ns = Ns(60_000_000_000);

/// Programs that see the submitter of a request, with their tracepoints; best first. The verifier
/// refuses the second argument of a tracepoint that has only one (5.11 on).
const SUBMISSIONS: &[(&str, &str)] =
    &[("start", "block_io_start"), ("getrq_of_queue", "block_getrq"), ("getrq", "block_getrq")];

/// Fields of a process by kind of request; a flush has no bytes.
const BYTES: [F; 3] = [F::BlockReadBytes, F::BlockWrittenBytes, F::BlockDiscardedBytes];
const REQUESTS: [F; 4] = [F::BlockReads, F::BlockWrites, F::BlockDiscards, F::BlockFlushes];
/// The same of a process on a disk.
const DISK_BYTES: [B; 3] = [B::ReadBytes, B::WrittenBytes, B::DiscardedBytes];
const DISK_REQUESTS: [B; 4] = [B::Reads, B::Writes, B::Discards, B::FlushRequests];

/// The block hooks and what they have counted.
pub struct Block {
    object: Object,
    since: Ns,
    owners: MissingOwners,
    late: LateUsage,
    percentiles: Percentiles,
    /// Disks by device number.
    disks: HashMap<(u32, u32), Disk>,
    /// Time of the last sweep of files; absent without write-back attribution.
    swept: Option<Ns>,
}

/// A disk with a row.
struct Disk {
    name: Arc<str>,
    is_stacked: bool,
}

impl Block {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel, asked: &ProbeConfig<'_>) -> Result<Self, Error> {
        Self::load_with(SUBMISSIONS, kernel, asked)
    }

    /// The same, with the first of these programs that this kernel accepts.
    fn load_with(
        submissions: &[(&str, &str)],
        kernel: &Kernel,
        asked: &ProbeConfig<'_>,
    ) -> Result<Self, Error> {
        let write_back = asked.capabilities.contains(&Capability::WriteBack);
        let rows = kernel.machine.rows();
        let constants = [(block::WRITE_BACK, if write_back { &1 } else { &0 })];
        let sizes = [
            (block::USED, rows),
            (block::LATENCY, rows),
            (block::IN_FLIGHT, rows),
            (block::QUEUED, rows),
            (block::DIRTIED, FILES_LIMIT),
        ];
        let mut object = Object::load("block", kernel, &constants, &sizes)?;
        if write_back {
            // 5.18 renamed it.
            object.attach_first(
                &[("dirty", "writeback_dirty_folio"), ("dirty", "writeback_dirty_page")],
                &kernel.btf,
            )?;
        }
        // Completions first: a request that starts in between would stay in flight forever.
        object.attach("complete", "block_rq_complete", &kernel.btf)?;
        object.attach_first(submissions, &kernel.btf)?;
        object.set_rows(block::STACKED, stacked_disks().map(|disk| (disk_key(disk), 1_u64)));
        // Until 5.10 it has another first argument.
        if kernel.facts.bios_have_devices() {
            object.attach("bio", "block_bio_queue", &kernel.btf)?;
        }
        Ok(Self {
            object,
            since: asked.since,
            owners: MissingOwners::default(),
            late: LateUsage::default(),
            percentiles: Percentiles::default(),
            disks: HashMap::new(),
            swept: write_back.then_some(asked.since),
        })
    }

    /// Removes the rows of disks that pass their I/O on, and stops counting there.
    fn drop_stacked(&mut self, used: &mut Vec<(OwnerDisk, DiskUsage)>) {
        let disks = &mut self.disks;
        let mut is_stacked = |key: &OwnerDisk| {
            let number = (key.major, key.minor);
            disks.entry(number).or_insert_with(|| Disk::read(number)).is_stacked
        };
        let (stacked, counted) = used.drain(..).partition::<Vec<_>, _>(|(key, _)| is_stacked(key));
        *used = counted;
        if !stacked.is_empty() {
            let keys = stacked.iter().map(|(key, _)| (disk_key((key.major, key.minor)), 1_u64));
            self.object.set_rows(block::STACKED, keys);
            let rows = stacked.into_iter().map(|(key, _)| key);
            self.object.remove_rows::<OwnerDisk, DiskUsage>(block::USED, rows);
        }
    }

    /// Adds the transfers on a disk.
    fn add_usage(&mut self, process: &mut Process, key: OwnerDisk, used: &DiskUsage) {
        let row = &mut process.row;
        let mut disk = BlockRow::default();
        for (kind, bytes) in used.bytes.into_iter().enumerate().take(BYTES.len()) {
            row.add(BYTES[kind], bytes);
            disk.set(DISK_BYTES[kind], bytes);
        }
        for (kind, requests) in used.requests.into_iter().enumerate() {
            row.add(REQUESTS[kind], requests);
            disk.set(DISK_REQUESTS[kind], requests);
        }
        let number = (key.major, key.minor);
        let known = self.disks.entry(number).or_insert_with(|| Disk::read(number));
        process.disks.push(Device { name: Arc::clone(&known.name), row: disk });
    }

    /// Adds the latencies of requests of one kind.
    fn add_latencies(
        &mut self,
        process: &mut Process,
        timed: LatencyKey,
        times: &histogram::Histogram,
    ) {
        let times = Histogram::from(&times.counts);
        let latencies = &mut process.latencies;
        let (p50, p99, histogram) = match timed.kind {
            READ => (F::BlockReadP50, F::BlockReadP99, &mut latencies.block_read),
            _ => (F::BlockWriteP50, F::BlockWriteP99, &mut latencies.block_write),
        };
        if let Some([half, most]) = self.percentiles.compute(&times, [50.0, 99.0]) {
            process.row.set(p50, half.0);
            process.row.set(p99, most.0);
        }
        *histogram = Some(times);
    }

    /// Counts the rows of processes that are in no sample any more.
    fn add_late(
        &mut self,
        gone: &HashSet<Owner>,
        (used, timed): (&[(OwnerDisk, DiskUsage)], impl Iterator<Item = LatencyKey>),
        now: Ns,
    ) {
        let late = used.iter().filter(|(key, _)| gone.contains(&key.owner)).copied();
        let settled = self.late.add(late, now);
        self.object.remove_rows::<OwnerDisk, DiskUsage>(block::USED, settled.into_iter());
        let timed = timed.filter(|it| gone.contains(&it.owner));
        self.object.remove_rows::<LatencyKey, histogram::Histogram>(block::LATENCY, timed);
    }

    /// Removes files that were written long ago: the kernel does not report when it writes them.
    fn sweep_files(&mut self, now: Ns) {
        let Some(swept) = self.swept else { return };
        if now.since(swept) < SWEEP_EVERY {
            return;
        }
        self.swept = Some(now);
        let monotonic = clock::monotonic();
        let old = |dirtier: Dirtier| monotonic.since(Ns(dirtier.at_ns)) > WRITTEN_AFTER;
        let files = self.object.rows::<u64, Dirtier>(block::DIRTIED);
        let written = files.into_iter().filter(|(_, dirtier)| old(*dirtier)).map(|(file, _)| file);
        self.object.remove_rows::<u64, Dirtier>(block::DIRTIED, written);
    }
}

impl ProbeReader for Block {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    /// The hook on dirtied pages belongs to write-back only.
    fn probe(&self, capability: Capability) -> Probe {
        let mut probe = health::probe(capability, &self.object, self.dropped());
        let for_pages = capability == Capability::WriteBack;
        probe.hooks.retain(|hook| hook.contains("writeback") == for_pages);
        probe
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        let now = sample.at.boot;
        let mut used = self.object.rows::<OwnerDisk, DiskUsage>(block::USED);
        let times = self.object.rows::<LatencyKey, histogram::Histogram>(block::LATENCY);
        self.drop_stacked(&mut used);
        used.sort_unstable_by_key(|(key, _)| *key);
        let owners = used.iter().map(|(key, _)| key.owner);
        let owners = owners.chain(times.iter().map(|(it, _)| it.owner));
        let gone = self.owners.gone(owners, processes, now);
        self.add_late(&gone, (&used, times.iter().map(|(timed, _)| *timed)), now);
        for process in processes.iter_mut() {
            set_zero(process, self.since);
        }
        for (key, used) in &used {
            if let Some(index) = owner::find(processes, key.owner) {
                self.add_usage(&mut processes[index], *key, used);
            }
        }
        for (timed, times) in &times {
            if let Some(index) = owner::find(processes, timed.owner) {
                self.add_latencies(&mut processes[index], *timed, times);
            }
        }
        // A completion between the look-up and this removal is lost; it would have to come after
        // the grace period of its ended process.
        let keys = used.iter().map(|(key, _)| *key);
        let ended = keys.filter(|it| owner::ended(processes, it.owner));
        self.object.remove_rows::<OwnerDisk, DiskUsage>(block::USED, ended);
        let timed = times.iter().map(|(timed, _)| *timed);
        let ended = timed.filter(|it| owner::ended(processes, it.owner));
        self.object.remove_rows::<LatencyKey, histogram::Histogram>(block::LATENCY, ended);
        self.sweep_files(now);
    }

    fn add_to_node(&self, node: &mut NodeRow) {
        self.late.set(node);
    }
}

/// Sets the fields to zero: without a row nothing was transferred.
fn set_zero(process: &mut Process, since: Ns) {
    for field in BYTES.into_iter().chain(REQUESTS) {
        process.row.set(field, 0);
    }
    process.count_from(since);
}

impl Disk {
    /// A disk by number; its name is the number if it no longer exists.
    fn read((major, minor): (u32, u32)) -> Self {
        let numbers = format!("{major}:{minor}");
        let folder = PathBuf::from(format!("/sys/dev/block/{numbers}"));
        let is_stacked = is_stacked(&folder);
        let link = std::fs::read_link(&folder);
        let name = match link.as_ref().ok().and_then(|path| path.file_name()) {
            Some(name) => name.to_string_lossy().into(),
            None => numbers.into(),
        };
        Self { name, is_stacked }
    }
}

/// Whether a disk passes its I/O on to others: those are its slaves (md, dm, bcache), or it is the
/// head of several paths of NVMe, which belongs to a subsystem instead of a controller.
fn is_stacked(folder: &Path) -> bool {
    let has_slaves =
        std::fs::read_dir(folder.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
    let is_head = || {
        let device = std::fs::canonicalize(folder).unwrap_or_default();
        device.components().any(|part| part.as_os_str() == "nvme-subsystem")
    };
    has_slaves || is_head()
}

/// The numbers of all disks that pass their I/O on.
fn stacked_disks() -> impl Iterator<Item = (u32, u32)> {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    disks.map(|disk| disk.path()).filter(|folder| is_stacked(folder)).filter_map(|folder| {
        let numbers = std::fs::read_to_string(folder.join("dev")).ok()?;
        let (major, minor) = numbers.trim().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

/// The key of a disk in [`block::STACKED`].
fn disk_key((major, minor): (u32, u32)) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

#[cfg(test)]
#[path = "../../../../tests/it/root/first.rs"]
mod first;

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "prints the hooks of this kernel")]
mod tests {
    use super::first::FirstProcess;
    use super::*;
    use crate::probe_reader::Readings;
    use std::process::Command;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tmp/submissions");
    const BYTES: u64 = 64 << 20;

    /// Runs `dd`; its pid, if it succeeds.
    fn dd(arguments: &[&str]) -> Option<u32> {
        let mut child = Command::new("dd").arg("status=none").args(arguments).spawn().unwrap();
        child.wait().unwrap().success().then(|| child.id())
    }

    /// Bytes and requests that a process read and wrote.
    fn counted(block: &Block, tgid: u32) -> ([u64; 2], [u64; 2]) {
        let rows = block.object.rows::<OwnerDisk, DiskUsage>(block::USED);
        let mine = rows.into_iter().filter(|(key, _)| key.owner.tgid == tgid);
        mine.fold(([0; 2], [0; 2]), |(bytes, requests), (_, used)| {
            let add = |sum: [u64; 2], more: [u64; 4]| [sum[0] + more[0], sum[1] + more[1]];
            (add(bytes, used.bytes), add(requests, used.requests))
        })
    }

    /// Number of requests of a process with a latency.
    fn measured(block: &Block, tgid: u32) -> u64 {
        let rows = block.object.rows::<LatencyKey, histogram::Histogram>(block::LATENCY);
        let mine = rows.iter().filter(|(timed, _)| timed.owner.tgid == tgid);
        mine.map(|(_, times)| times.counts.iter().sum::<u64>()).sum()
    }

    /// Runs `dd` until the first process did not run meanwhile, which may hide switches.
    fn run_unhidden(arguments: &[&str]) -> u32 {
        for _ in 0..100 {
            let first = FirstProcess::watched();
            let child = dd(arguments).unwrap();
            if !first.has_run() {
                return child;
            }
        }
        panic!("process 1 ran during each attempt");
    }

    fn check(block: &Block) {
        let (of, from) = (format!("of={FILE}"), format!("if={FILE}"));
        let size = ["bs=1M", "count=64"];
        let directly = ["oflag=direct", "conv=notrunc"];
        let writer = run_unhidden(&[&["if=/dev/zero", &of], &size[..], &directly].concat());
        let reader = run_unhidden(&[&from, "of=/dev/null", "bs=1M", "iflag=direct"]);
        for (tgid, bytes) in [(writer, [0, BYTES]), (reader, [BYTES, 0])] {
            let (counted, requests) = counted(block, tgid);
            assert_eq!(counted, bytes, "{:?}", block.object.hooks);
            assert_eq!(measured(block, tgid), requests.iter().sum::<u64>());
        }
    }

    #[test]
    fn a_disk_with_slaves_or_several_paths_passes_its_io_on() {
        let folder = std::env::temp_dir().join(format!("monitor-disks-{}", std::process::id()));
        let disks = ["md0/slaves/sda", "zram0/slaves", "nvme-subsystem/nvme-subsys0/nvme0n1"];
        let _ = disks.map(|disk| std::fs::create_dir_all(folder.join(disk)).unwrap());
        let stacked = ["md0", "zram0", "nvme-subsystem/nvme-subsys0/nvme0n1"]
            .map(|disk| is_stacked(&folder.join(disk)));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(stacked, [true, false, true]);
    }

    #[test]
    fn root_every_way_to_see_a_submitter_counts_the_same() {
        let name = "root_every_way_to_see_a_submitter_counts_the_same";
        let prepare = [&format!("of={FILE}"), "if=/dev/zero", "bs=1M", "count=64", "oflag=direct"];
        std::fs::create_dir_all(std::path::Path::new(FILE).parent().unwrap()).unwrap();
        if !rustix::process::geteuid().is_root() || dd(&prepare).is_none() {
            assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{name} needs root");
            println!("SKIP {name}: needs root, and direct I/O in {FILE}");
            return;
        }
        let kernel = Kernel::read(0).unwrap();
        let asked = ProbeConfig {
            capabilities: &[Capability::Block],
            since: clock::boot(),
            readings: Readings::Many,
        };
        let mut n_tested = 0;
        for tracepoint in ["block_io_start", "block_getrq"] {
            let programs = SUBMISSIONS.iter().filter(|(_, hook)| *hook == tracepoint);
            let programs: Vec<_> = programs.copied().collect();
            match Block::load_with(&programs, &kernel, &asked) {
                Ok(block) => check(&block),
                Err(error) => {
                    println!("{error}");
                    continue;
                }
            }
            println!("{tracepoint}: {BYTES} bytes each way");
            n_tested += 1;
        }
        let _ = std::fs::remove_file(FILE);
        assert!(n_tested > 0, "no program is accepted here");
    }
}
