//! What was read, written, discarded and flushed for each process: the tables of `bin/block.rs`.
//!
//! In: rows by owner and disk, latencies by owner. Out: the block fields of every process, its
//! disks and its histograms. The rows of ended processes are removed as they are reported.

use super::health;
use super::kernel::Kernel;
use super::object::{Object, Settings};
use super::owner::{self, Owners};
use super::part::{Asked, Part};
use monitor_backend::Error;
use monitor_ebpf::abi::block::{self, Dirtier, Place, READ, Timed, Use};
use monitor_ebpf::abi::histogram;
use monitor_model::field::BlockField as B;
use monitor_model::field::ProcessField as F;
use monitor_model::field::block::BlockRow;
use monitor_model::histogram::{Histogram, Percentiles};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::sample::{Device, Process, Sample};
use monitor_model::want::Capability;
use monitor_sys::clock;
use std::collections::HashMap;
use std::sync::Arc;

/// Files whose dirtier is remembered, at most.
const FILES_LIMIT: u32 = 1 << 16;
/// A file that nobody dirtied for this long has been written: the kernel writes what is dirty for
/// half a minute (`vm.dirty_expire_centisecs`), later only if the disk is that far behind.
const WRITTEN_AFTER: Ns = Ns(600_000_000_000);
/// How often files are looked through; each costs a microsecond.
const SWEEP_EVERY: Ns = Ns(60_000_000_000);

/// Programs that see who submits a request, each with its tracepoint; best first. The verifier
/// refuses the second argument of a tracepoint that has only one (5.11 on).
const SUBMISSIONS: &[(&str, &str)] =
    &[("start", "block_io_start"), ("getrq_of_queue", "block_getrq"), ("getrq", "block_getrq")];

/// Fields of a process by kind of request; a flush has no bytes.
const BYTES: [F; 3] = [F::BlockReadBytes, F::BlockWrittenBytes, F::BlockDiscardedBytes];
const REQUESTS: [F; 4] = [F::BlockReads, F::BlockWrites, F::BlockDiscards, F::BlockFlushes];
/// The same of a process on a disk.
const DISK_BYTES: [B; 3] = [B::ReadBytes, B::WrittenBytes, B::DiscardedBytes];
const DISK_REQUESTS: [B; 4] = [B::Reads, B::Writes, B::Discards, B::Flushes];

/// The block hooks and what they have counted.
pub struct Block {
    object: Object,
    since: Ns,
    owners: Owners,
    percentiles: Percentiles,
    /// Names of disks by device number.
    names: HashMap<(u32, u32), Arc<str>>,
    /// When files were looked through; absent without write-back attribution.
    swept: Option<Ns>,
}

impl Block {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel, asked: &Asked<'_>) -> Result<Self, Error> {
        Self::seeing(SUBMISSIONS, kernel, asked)
    }

    /// The same, with the first of these programs that this kernel takes.
    fn seeing(
        submissions: &[(&str, &str)],
        kernel: &Kernel,
        asked: &Asked<'_>,
    ) -> Result<Self, Error> {
        let write_back = asked.capabilities.contains(&Capability::WriteBack);
        let rows = kernel.machine.rows();
        let settings = Settings {
            constants: &[(block::WRITE_BACK, if write_back { &1 } else { &0 })],
            sizes: &[
                (block::USED, rows),
                (block::LATENCY, rows),
                (block::IN_FLIGHT, rows),
                (block::QUEUED, rows),
                (block::DIRTIED, FILES_LIMIT),
            ],
        };
        let mut object = Object::load("block", kernel, &settings)?;
        if write_back {
            // 5.18 renamed it.
            object.attach_first(
                &[("dirty", "writeback_dirty_folio"), ("dirty", "writeback_dirty_page")],
                &kernel.btf,
            )?;
        }
        // Completions first: a request that starts in between would stay in flight for ever.
        object.attach("complete", "block_rq_complete", &kernel.btf)?;
        object.attach_first(submissions, &kernel.btf)?;
        Ok(Self {
            object,
            since: asked.since,
            owners: Owners::default(),
            percentiles: Percentiles::default(),
            names: HashMap::new(),
            swept: write_back.then_some(asked.since),
        })
    }

    /// Adds what was transferred on a disk.
    fn add_use(&mut self, process: &mut Process, place: Place, used: &Use) {
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
        let number = (place.major, place.minor);
        let name = self.names.entry(number).or_insert_with(|| disk_name(number)).clone();
        process.disks.push(Device { name, row: disk });
    }

    /// Adds how long requests of one kind took.
    fn add_times(&mut self, process: &mut Process, timed: Timed, times: &histogram::Histogram) {
        let times = Histogram::from(times);
        let (p50, p99) = match timed.kind {
            READ => (F::BlockReadP50, F::BlockReadP99),
            _ => (F::BlockWriteP50, F::BlockWriteP99),
        };
        if let Some([half, most]) = self.percentiles.of(&times, [50.0, 99.0]) {
            process.row.set(p50, half.0);
            process.row.set(p99, most.0);
        }
        match timed.kind {
            READ => process.latencies.block_read = Some(times),
            _ => process.latencies.block_write = Some(times),
        }
    }

    /// Forgets files that were written long ago: the kernel does not tell when it does.
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

impl Part for Block {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn object_mut(&mut self) -> Option<&mut Object> {
        Some(&mut self.object)
    }

    /// Pages that become dirty are seen for write-back alone.
    fn probe(&self, capability: Capability) -> Probe {
        let mut probe = health::probe(capability, &self.object, self.dropped());
        let for_pages = capability == Capability::WriteBack;
        probe.hooks.retain(|hook| hook.contains("writeback") == for_pages);
        probe
    }

    fn join(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        let now = sample.at.boot;
        let mut used = self.object.rows::<Place, Use>(block::USED);
        let times = self.object.rows::<Timed, histogram::Histogram>(block::LATENCY);
        used.sort_unstable_by_key(|(place, _)| *place);
        let owners = used.iter().map(|(place, _)| place.owner);
        self.owners.settle(owners.chain(times.iter().map(|(it, _)| it.owner)), processes, now);
        for process in processes.iter_mut() {
            begin(process, self.since);
        }
        for (place, used) in &used {
            if let Some(index) = owner::find(processes, place.owner) {
                self.add_use(&mut processes[index], *place, used);
            }
        }
        for (timed, times) in &times {
            if let Some(index) = owner::find(processes, timed.owner) {
                self.add_times(&mut processes[index], *timed, times);
            }
        }
        // What completes between the look-up and here is lost; it would have to outlive its
        // process by the grace period of the kernel's task.
        let places = used.iter().map(|(place, _)| *place);
        let ended = places.filter(|it| owner::ended(processes, it.owner));
        self.object.remove_rows::<Place, Use>(block::USED, ended);
        let timed = times.iter().map(|(timed, _)| *timed);
        let ended = timed.filter(|it| owner::ended(processes, it.owner));
        self.object.remove_rows::<Timed, histogram::Histogram>(block::LATENCY, ended);
        self.sweep_files(now);
    }
}

/// Nothing was transferred yet: that is known, so it is zero.
fn begin(process: &mut Process, since: Ns) {
    for field in BYTES.into_iter().chain(REQUESTS) {
        process.row.set(field, 0);
    }
    process.count_from(since);
}

/// The kernel's name of a disk; its numbers once it is gone.
fn disk_name((major, minor): (u32, u32)) -> Arc<str> {
    let numbers = format!("{major}:{minor}");
    let link = std::fs::read_link(format!("/sys/dev/block/{numbers}"));
    match link.as_ref().ok().and_then(|path| path.file_name()) {
        Some(name) => name.to_string_lossy().into(),
        None => numbers.into(),
    }
}

#[cfg(test)]
#[path = "../../../../../tests/it/root/first.rs"]
mod first;

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "it says which hooks this kernel has")]
mod tests {
    use super::first::FirstProcess;
    use super::*;
    use std::process::Command;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tmp/submissions");
    const BYTES: u64 = 64 << 20;

    /// Runs `dd`; its process id, once it has ended well.
    fn dd(arguments: &[&str]) -> Option<u32> {
        let mut child = Command::new("dd").arg("status=none").args(arguments).spawn().unwrap();
        child.wait().unwrap().success().then(|| child.id())
    }

    /// Bytes and requests that a process read and wrote.
    fn counted(block: &Block, tgid: u32) -> ([u64; 2], [u64; 2]) {
        let rows = block.object.rows::<Place, Use>(block::USED);
        let mine = rows.into_iter().filter(|(place, _)| place.owner.tgid == tgid);
        mine.fold(([0; 2], [0; 2]), |(bytes, requests), (_, used)| {
            let add = |sum: [u64; 2], more: [u64; 4]| [sum[0] + more[0], sum[1] + more[1]];
            (add(bytes, used.bytes), add(requests, used.requests))
        })
    }

    /// Requests of a process whose time was taken.
    fn timed(block: &Block, tgid: u32) -> u64 {
        let rows = block.object.rows::<Timed, histogram::Histogram>(block::LATENCY);
        let mine = rows.iter().filter(|(timed, _)| timed.owner.tgid == tgid);
        mine.map(|(_, times)| times.counts.iter().sum::<u64>()).sum()
    }

    /// Runs `dd` until nothing of it was hidden.
    fn seen(arguments: &[&str]) -> u32 {
        for _ in 0..100 {
            let first = FirstProcess::watched();
            let child = dd(arguments).unwrap();
            if !first.has_run() {
                return child;
            }
        }
        panic!("process 1 never rests");
    }

    fn check(block: &Block) {
        let (of, from) = (format!("of={FILE}"), format!("if={FILE}"));
        let size = ["bs=1M", "count=64"];
        let directly = ["oflag=direct", "conv=notrunc"];
        let writer = seen(&[&["if=/dev/zero", &of], &size[..], &directly].concat());
        let reader = seen(&[&from, "of=/dev/null", "bs=1M", "iflag=direct"]);
        for (tgid, bytes) in [(writer, [0, BYTES]), (reader, [BYTES, 0])] {
            let (counted, requests) = counted(block, tgid);
            assert_eq!(counted, bytes, "{:?}", block.object.hooks());
            assert_eq!(timed(block, tgid), requests.iter().sum::<u64>());
        }
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
        let asked = Asked { capabilities: &[Capability::Block], since: clock::boot() };
        let mut ways = 0;
        for tracepoint in ["block_io_start", "block_getrq"] {
            let of_it = SUBMISSIONS.iter().filter(|(_, hook)| *hook == tracepoint);
            let of_it: Vec<_> = of_it.copied().collect();
            match Block::seeing(&of_it, &kernel, &asked) {
                Ok(block) => check(&block),
                Err(error) => {
                    println!("{error}");
                    continue;
                }
            }
            println!("{tracepoint}: {BYTES} bytes each way");
            ways += 1;
        }
        let _ = std::fs::remove_file(FILE);
        assert!(ways > 0, "no way works here");
    }
}
