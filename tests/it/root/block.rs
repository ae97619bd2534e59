//! Block I/O by process, to the byte and to the request.

use super::first::FirstProcess;
use super::privilege::{granted, skip};
use super::workload::{Guarded, alive, ebpf, processes, undisturbed, until};
use crate::deadline;
use monitor_backend::Backend;
use monitor_model::field::{BlockField as B, NodeField, ProcessField as F};
use monitor_model::histogram::Histogram;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::sample::{Process, Sample};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;

/// A file on a disk, removed with the test.
pub struct File(PathBuf);

impl File {
    /// 64 MiB that have their place on the disk already, so that writing again changes no
    /// metadata. `None` where the file system has no direct I/O.
    pub fn on_disk(test: &str) -> Option<Self> {
        let it = Self::named(test);
        let _ = dd(&["if=/dev/zero", &it.output_arg(), "bs=1M", "count=64", "conv=fsync"]).0.wait();
        let works = dd(&[
            "if=/dev/zero",
            &it.output_arg(),
            "bs=4096",
            "count=1",
            "oflag=direct",
            "conv=notrunc",
        ])
        .0
        .wait()
        .unwrap()
        .success();
        if !works {
            skip(test, &format!("no direct I/O in {}", it.0.display()));
        }
        works.then_some(it)
    }

    fn named(test: &str) -> Self {
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(test))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn output_arg(&self) -> String {
        format!("of={}", self.0.display())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A block device of its own, made of a file.
struct Loop(String, #[expect(dead_code, reason = "the file lives as long as the device")] File);

impl Loop {
    fn new(test: &str) -> Option<Self> {
        let file = File::on_disk(test)?;
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file.0).output().ok()?;
        let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        if device.is_empty() {
            skip(test, "no loop devices here");
        }
        (!device.is_empty()).then_some(Self(device, file))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn dd(arguments: &[&str]) -> Guarded {
    Guarded::run(Command::new("dd").arg("status=none").args(arguments))
}

/// Runs a command until nothing of it was hidden, and waits for its last record.
#[track_caller]
fn ended(backend: &mut dyn Backend, command: impl Fn() -> Guarded) -> Process {
    undisturbed(|first| {
        let mut child = command();
        assert!(child.0.wait().unwrap().success());
        let mut found = None;
        let _ = until(backend, &processes(), |sample| {
            let mine = |it: &&Process| it.id.pid == child.pid() && it.ended();
            found = sample.processes.iter().find(mine).cloned();
            found.is_some() || first.has_run()
        });
        found
    })
}

fn count(times: &Option<Histogram>) -> u64 {
    times.as_ref().map_or(0, Histogram::count)
}

/// Read, written, discarded bytes; reads, writes, discards, flushes.
fn counted(process: &Process) -> [u64; 7] {
    let fields = [
        F::BlockReadBytes,
        F::BlockWrittenBytes,
        F::BlockDiscardedBytes,
        F::BlockReads,
        F::BlockWrites,
        F::BlockDiscards,
        F::BlockFlushes,
    ];
    fields.map(|field| process.row.get(field).unwrap())
}

/// What a process did on one disk.
fn on_disk<const N: usize>(process: &Process, disk: &Loop, fields: [B; N]) -> [u64; N] {
    let it = process.disks.iter().find(|it| disk.0.ends_with(&*it.name)).unwrap();
    fields.map(|field| it.row.get(field).unwrap())
}

/// A process that reads and writes a file directly, a MiB at a time, on command.
struct Direct(Guarded);

impl Direct {
    fn on(file: &File) -> Self {
        let program = format!(
            "import mmap, os, sys\n\
             file = os.open('{}', os.O_RDWR | os.O_DIRECT)\n\
             piece = mmap.mmap(-1, 1 << 20)\n\
             how = dict(read=os.preadv, write=os.pwritev)\n\
             print('ready', flush=True)\n\
             for line in sys.stdin:\n    \
                 verb, at = line.split()\n    \
                 print(how[verb](file, [piece], int(at)), flush=True)",
            file.path().display()
        );
        let mut it = Self(Guarded::python(&program));
        assert_eq!(it.0.line(), "ready");
        it
    }

    fn piece(&mut self, verb: &str, at: u64) {
        self.0.send_line(&format!("{verb} {at}"));
        assert_eq!(self.0.line(), MIB.to_string());
    }

    /// What the kernel says was read from disks for it: proc_pid_io(5). What it says was written
    /// includes pages that were only dirtied.
    fn fetched(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/io", self.0.pid().0)).unwrap();
        text.lines().find_map(|it| it.strip_prefix("read_bytes: ")).unwrap().parse().unwrap()
    }

    /// Moves the whole file. Returns the bytes read and written that were counted, and the bytes
    /// read that the kernel accounts. A piece is moved again if completions may have been hidden.
    fn whole(&mut self, backend: &mut dyn Backend, verb: &str) -> [u64; 3] {
        let mut sums = [0; 3];
        for at in (0..64).map(|piece| piece * MIB) {
            let moved: [u64; 3] = deadline::until(|| {
                let before = self.bytes(backend);
                let first = FirstProcess::watched();
                self.piece(verb, at);
                let is_whole = !first.has_run();
                let after = self.bytes(backend);
                is_whole.then(|| std::array::from_fn(|at| after[at] - before[at]))
            });
            sums = std::array::from_fn(|at| sums[at] + moved[at]);
        }
        sums
    }

    fn bytes(&self, backend: &mut dyn Backend) -> [u64; 3] {
        let [read, written, ..] = self.counted(backend);
        [read, written, self.fetched()]
    }

    fn counted(&self, backend: &mut dyn Backend) -> [u64; 7] {
        counted(alive(&backend.read(&processes()).unwrap(), self.0.pid()).unwrap())
    }

    /// Ends it, and waits for its last record.
    fn ended(mut self, backend: &mut dyn Backend) -> Process {
        drop(self.0.0.stdin.take());
        assert!(self.0.0.wait().unwrap().success());
        let mine = |it: &&Process| it.id.pid == self.0.pid() && it.ended();
        let sample = until(backend, &processes(), |it| it.processes.iter().any(|it| mine(&it)));
        sample.processes.iter().find(mine).unwrap().clone()
    }
}

#[test]
fn root_64_mib_written_and_read_directly_are_counted_to_the_byte() {
    let name = "root_64_mib_written_and_read_directly_are_counted_to_the_byte";
    if !granted(name) {
        return;
    }
    let Some(file) = File::on_disk(name) else { return };
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Block]);
    let mut direct = Direct::on(&file);
    let [read, written, fetched] = direct.whole(&mut backend, "write");
    println!("writing: written {written}, read {read}, as the kernel accounts {fetched}");
    // Its program may have to be read meanwhile, which the kernel accounts as well.
    assert_eq!((written, read), (64 * MIB, fetched));
    let [read, written, fetched] = direct.whole(&mut backend, "read");
    println!("reading: written {written}, read {read}, as the kernel accounts {fetched}");
    assert_eq!((written, read), (0, fetched));
    assert!(read >= 64 * MIB);
    let live = direct.counted(&mut backend);
    let it = direct.ended(&mut backend);
    // As it ends it may read more of its program, and writes nothing.
    let last = counted(&it);
    assert_eq!((last[1], last[4]), (live[1], live[4]));
    assert!(last[0] >= live[0], "{last:?} after {live:?}");
    assert_eq!(count(&it.latencies.block_write), it.row.get(F::BlockWrites).unwrap());
    assert_eq!(count(&it.latencies.block_read), it.row.get(F::BlockReads).unwrap());
    // One disk, and all of it there.
    let [disk] = &it.disks[..] else { panic!("{:?}", it.disks) };
    assert_eq!(disk.row.get(B::WrittenBytes), it.row.get(F::BlockWrittenBytes));
    let disk = &disk.name;
    assert!(Path::new("/sys/block").join(&**disk).exists(), "{disk} is no disk");
}

#[test]
fn root_23_direct_writes_are_23_requests_with_23_latencies() {
    let name = "root_23_direct_writes_are_23_requests_with_23_latencies";
    if !granted(name) {
        return;
    }
    let Some(file) = File::on_disk(name) else { return };
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Block]);
    let arguments =
        ["if=/dev/zero", &file.output_arg(), "bs=4096", "count=23", "oflag=direct", "conv=notrunc"];
    let it = ended(&mut backend, || dd(&arguments));
    // What was read was its program, if that was not in memory.
    let [read, written, discarded, reads, rest @ ..] = counted(&it);
    assert_eq!((written, discarded, rest), (23 * 4096, 0, [23, 0, 0]));
    assert_eq!(reads == 0, read == 0, "{reads} reads of {read} bytes");
    let writes = it.latencies.block_write.as_ref().unwrap();
    assert_eq!(writes.count(), 23);
    let p50 = it.row.get(F::BlockWriteP50).unwrap();
    let p99 = it.row.get(F::BlockWriteP99).unwrap();
    println!("p50 {p50} ns, p99 {p99} ns");
    assert!(p50 <= p99);
    assert!(writes.buckets().any(|(low, high, _)| low.0 <= p99 && p99 <= high.0));
    assert_eq!(it.row.get(F::BlockReadP50), None);
}

#[test]
fn root_discards_and_flushes_are_neither_writes_nor_reads() {
    let name = "root_discards_and_flushes_are_neither_writes_nor_reads";
    if !granted(name) {
        return;
    }
    let Some(disk) = Loop::new(name) else { return };
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Block]);
    let discard =
        || Guarded::run(Command::new("blkdiscard").args(["--force", "--length", "16MiB", &disk.0]));
    let it = ended(&mut backend, discard);
    println!("blkdiscard {:?}", counted(&it));
    // On this disk alone: the program itself may have been read from another.
    let [read, written, discarded] =
        on_disk(&it, &disk, [B::ReadBytes, B::WrittenBytes, B::DiscardedBytes]);
    assert_eq!((read, written, discarded), (0, 0, 16 * MIB));
    assert!(on_disk(&it, &disk, [B::Discards])[0] > 0);
    let of = format!("of={}", disk.0);
    let synced = || dd(&["if=/dev/zero", &of, "bs=4096", "count=23", "oflag=direct", "conv=fsync"]);
    let it = ended(&mut backend, synced);
    println!("dd conv=fsync {:?}", counted(&it));
    let fields = [B::WrittenBytes, B::Writes, B::Discards, B::FlushRequests];
    assert_eq!(on_disk(&it, &disk, fields), [23 * 4096, 23, 0, 1]);
}

/// A disk without requests, removed with the test.
struct Zram(String);

impl Zram {
    /// 64 MiB; none where the kernel has no such disks.
    fn new(test: &str) -> Option<Self> {
        let Ok(number) = std::fs::read_to_string("/sys/class/zram-control/hot_add") else {
            println!("SKIP {test}: this kernel has no zram");
            return None;
        };
        let it = Self(format!("zram{}", number.trim()));
        std::fs::write(format!("/sys/block/{}/disksize", it.0), "64M").unwrap();
        Some(it)
    }

    /// Reads and bytes read, writes and bytes written, as the kernel counts them.
    fn kernel_counts(&self) -> [u64; 4] {
        let stat = std::fs::read_to_string(format!("/sys/block/{}/stat", self.0)).unwrap();
        let column = |at| stat.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
        [column(0), column(2) * 512, column(4), column(6) * 512]
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let number = &self.0["zram".len()..];
        let _ = std::fs::write(format!("/sys/block/{}/reset", self.0), "1");
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", number);
    }
}

#[test]
fn root_a_disk_without_requests_counts_its_bios() {
    let name = "root_a_disk_without_requests_counts_its_bios";
    if !granted(name) {
        return;
    }
    let Some(disk) = Zram::new(name) else { return };
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Block]);
    let (of, from) = (format!("of=/dev/{}", disk.0), format!("if=/dev/{}", disk.0));
    let fields = [B::Reads, B::ReadBytes, B::Writes, B::WrittenBytes, B::FlushRequests];
    let transfers = |it: &Process| {
        let row = it.disks.iter().find(|it| *it.name == *disk.0).map(|it| &it.row);
        fields.map(|field| row.and_then(|row| row.get(field)).unwrap_or(0))
    };
    // The kernel counts what others read, such as udev; the process counts its own.
    let before = disk.kernel_counts();
    let write = || dd(&["if=/dev/zero", &of, "bs=8192", "count=23", "oflag=direct"]);
    let written = ended(&mut backend, write);
    assert_eq!(transfers(&written), [0, 0, 23, 23 * 8192, 0]);
    let grown = disk.kernel_counts();
    assert!(grown[2] - before[2] >= 23 && (grown[3] - before[3]) % (23 * 8192) == 0);
    let read = || dd(&[&from, "of=/dev/null", "bs=8192", "count=23", "iflag=direct"]);
    let read = ended(&mut backend, read);
    assert_eq!(transfers(&read), [23, 23 * 8192, 0, 0, 0]);
    assert!(read.row.get(F::BlockReadBytes).unwrap() >= 23 * 8192);
}

#[test]
fn root_later_write_back_is_charged_to_the_process_that_dirtied_it() {
    let name = "root_later_write_back_is_charged_to_the_process_that_dirtied_it";
    if !granted(name) {
        return;
    }
    let capabilities = [Capability::Lifetimes, Capability::Block, Capability::WriteBack];
    let mut backend = ebpf(&capabilities);
    let written = undisturbed(|first| {
        let file = File::named(name);
        let mut child = dd(&["if=/dev/zero", &file.output_arg(), "bs=1M", "count=8"]);
        let pid = child.pid();
        assert!(child.0.wait().unwrap().success());
        let sync = Command::new("sync").arg("--file-system").arg(&file.0).status().unwrap();
        assert!(sync.success());
        if first.has_run() {
            return None;
        }
        // Its end is reported once, with what was written for it until then.
        let mut written = 0;
        let _ = until(&mut backend, &processes(), |sample| {
            let mine = sample.processes.iter().filter(|it| it.id.pid == pid && it.ended());
            written += mine.map(|it| it.row.get(F::BlockWrittenBytes).unwrap()).sum::<u64>();
            written >= 8 * MIB || first.has_run()
        });
        Some(written)
    });
    assert_eq!(written, 8 * MIB);
}

#[test]
fn root_pages_written_back_after_the_end_are_of_the_node_and_the_process_ends_once() {
    let name = "root_pages_written_back_after_the_end_are_of_the_node_and_the_process_ends_once";
    if !granted(name) {
        return;
    }
    let capabilities = [Capability::Lifetimes, Capability::Block, Capability::WriteBack];
    let mut backend = ebpf(&capabilities);
    let spec = ReadSpec { node: true, ..processes() };
    let unattributed = |sample: &Sample| {
        let node = sample.node_stats.as_ref().unwrap();
        node.row.get(NodeField::BlockUnattributedBytes).unwrap()
    };
    let (n_ends, own, of_node) = undisturbed(|first| {
        let file = File::named(name);
        let mut child = dd(&["if=/dev/zero", &file.output_arg(), "bs=1M", "count=8"]);
        let pid = child.pid();
        assert!(child.0.wait().unwrap().success());
        let mut ends: Vec<Process> = Vec::new();
        let mut learn = |sample: &Sample| {
            let mine = sample.processes.iter().filter(|it| it.id.pid == pid && it.ended());
            ends.extend(mine.cloned());
            let written = ends.iter().map(|it| it.row.get(F::BlockWrittenBytes).unwrap());
            (ends.len(), written.sum::<u64>())
        };
        let ended = until(&mut backend, &spec, |sample| learn(sample).0 > 0 || first.has_run());
        let before = unattributed(&ended);
        let sync = Command::new("sync").arg("--file-system").arg(&file.0).status().unwrap();
        assert!(sync.success());
        let (mut n_ends, mut own, mut of_node) = (0, 0, 0);
        let _ = until(&mut backend, &spec, |sample| {
            (n_ends, own) = learn(sample);
            of_node = unattributed(sample) - before;
            own + of_node >= 8 * MIB || n_ends > 1 || first.has_run()
        });
        (!first.has_run()).then_some((n_ends, own, of_node))
    });
    println!("{own} bytes in its row, {of_node} of the node");
    assert_eq!(n_ends, 1);
    // Other processes may have ended with pages to be written.
    assert!(own + of_node >= 8 * MIB);
}

#[test]
fn root_without_write_back_attribution_no_page_is_credited_to_its_dirtier() {
    let name = "root_without_write_back_attribution_no_page_is_credited_to_its_dirtier";
    if !granted(name) {
        return;
    }
    let mut backend = ebpf(&[Capability::Lifetimes, Capability::Block]);
    let hooks = |backend: &mut monitor_loader::Ebpf| -> Vec<String> {
        backend.probes().into_iter().flat_map(|probe| probe.hooks).collect()
    };
    assert!(!hooks(&mut backend).iter().any(|hook| hook.contains("dirty")));
    let mut with = ebpf(&[Capability::Block, Capability::WriteBack]);
    assert!(hooks(&mut with).iter().any(|hook| hook.contains("dirty")));
}
