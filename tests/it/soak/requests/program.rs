//! The programs of the rounds, and how each of their processes ended as its parent saw it.

use super::super::random::Random;
use crate::control::target::{Target, ends_program};
use crate::deadline::until;
use crate::probe::mpi::{MPICH, OPEN_MPI, Ranks};
use crate::probe::pvm::{Pvm, Task};
use crate::served::Folder;
use std::collections::BTreeMap;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// The name of the program's processes; at most 15 bytes are in `comm`.
const NAME: &str = "soak-ends";
/// Processes of the shape `children` besides the first.
const N_CHILDREN: u64 = 3;
/// The test whose folder has the programs of the message libraries.
const TEST: &str = "soak-requests";

/// What a program consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Single,
    Threads,
    Children,
    /// Children and threads begin and end all the time.
    Breed,
    OpenMpi,
    Mpich,
    Pvm,
}

impl Shape {
    /// Programs with a message library take a second to start, so they are few.
    pub fn pick(random: &mut Random) -> Self {
        match random.below(24) {
            0 => Self::OpenMpi,
            1 => Self::Mpich,
            2 => Self::Pvm,
            3..8 => Self::Single,
            8..13 => Self::Children,
            13..18 => Self::Breed,
            _ => Self::Threads,
        }
    }

    /// Whether it is `tests/fixture/control/ends.c`.
    pub fn is_own(self) -> bool {
        !matches!(self, Self::OpenMpi | Self::Mpich | Self::Pvm)
    }
}

/// The built programs.
pub struct Programs {
    ends: PathBuf,
    pvm: Option<Pvm>,
}

/// One that runs.
pub struct Program {
    running: Running,
    shape: Shape,
    /// Its processes, the one that the test waits for first. `mpirun` is none of them.
    pub pids: Vec<u32>,
}

enum Running {
    Own(Target),
    Mpi(Ranks),
    Pvm(Task),
}

impl Programs {
    pub fn build(folder: &Folder) -> Self {
        let ends = folder.join(NAME);
        let _bytes = std::fs::copy(ends_program(), &ends).unwrap();
        Self { ends, pvm: None }
    }

    /// Starts a program of this shape that ends as `how` says. `None` if its library is missing,
    /// which fails where a skip is not allowed.
    pub fn start(&mut self, shape: Shape, how: &str, uid: u32) -> Option<Program> {
        let name = match shape {
            Shape::Single => "single",
            Shape::Threads => "threads",
            Shape::Children => "children",
            Shape::Breed => "breed",
            Shape::OpenMpi | Shape::Mpich => {
                let library = if shape == Shape::Mpich { &MPICH } else { &OPEN_MPI };
                let ranks = Ranks::start(TEST, library)?;
                let pids = ranks.pids.iter().map(|pid| pid.0).collect();
                return Some(Program { running: Running::Mpi(ranks), shape, pids });
            }
            Shape::Pvm => {
                if self.pvm.is_none() {
                    self.pvm = Some(Pvm::start(TEST)?);
                }
                let task = self.pvm.as_ref()?.task();
                let pids = vec![task.pid().0];
                return Some(Program { running: Running::Pvm(task), shape, pids });
            }
        };
        let mut command = Command::new(&self.ends);
        let target = Target::run(command.args([name, how]).uid(uid).gid(uid));
        let mut pids = vec![target.id().pid.0];
        if shape == Shape::Children {
            let pid = |n| u32::try_from(target.number(target.at("kids") + 8 * n)).unwrap();
            pids.extend((0..N_CHILDREN).map(pid));
        }
        Some(Program { running: Running::Own(target), shape, pids })
    }
}

impl Program {
    /// The processes at which events are set.
    pub fn targets(&self) -> &[u32] {
        match self.shape {
            Shape::Children => &self.pids[1..],
            _ => &self.pids[..1],
        }
    }

    /// The function that they call.
    pub fn function(&self) -> &'static str {
        match self.running {
            Running::Own(_) => "meet",
            Running::Mpi(_) => "MPI_Send",
            Running::Pvm(_) => "pvm_send",
        }
    }

    /// The address of a part of it.
    pub fn at(&self, name: &str) -> u64 {
        match &self.running {
            Running::Own(target) => target.at(name),
            _ => unreachable!("only our own program prints its addresses"),
        }
    }

    /// Lets it call the function.
    pub fn begin(&mut self) {
        match &mut self.running {
            Running::Own(_) => {
                self.pids.iter().for_each(|pid| crate::control::target::signal(*pid, "USR2"));
            }
            Running::Mpi(ranks) => ranks.begin("go 23"),
            Running::Pvm(task) => {
                let tid = task.tid;
                task.begin(&format!("send {tid} 1 10"));
            }
        }
    }

    /// Lets all of its processes end by themselves.
    pub fn end_now(&self) {
        self.targets().iter().for_each(|pid| put(*pid, self.at("end_now"), 1));
    }

    /// Waits as the parent of its processes does; returns how each has ended: its exit code, or 128
    /// and the signal. Of a rank only `mpirun` knows that.
    #[track_caller]
    pub fn wait(&mut self, mut meanwhile: impl FnMut()) -> BTreeMap<u32, Option<i32>> {
        let mut all: BTreeMap<u32, Option<i32>> = self.pids.iter().map(|it| (*it, None)).collect();
        let _left = PrintLeft;
        let first = until(|| {
            meanwhile();
            match &mut self.running {
                Running::Own(target) => {
                    if let Some(status) = target.ended() {
                        return Some(Some(code(status)));
                    }
                    // It ends when the ends of all children were read.
                    let children = &self.pids[1..];
                    let at = target.at("statuses");
                    for (pid, at) in children.iter().zip((at..).step_by(8)) {
                        if all[pid].is_none() {
                            let status = target.number(at);
                            let seen = (status != 0).then(|| i32::try_from(status - 1).unwrap());
                            let _before = all.insert(*pid, seen);
                            if children.iter().all(|pid| all[pid].is_some()) {
                                target.put(target.at("end_now"), 1);
                            }
                        }
                    }
                    None
                }
                Running::Mpi(ranks) => ranks.ended().map(|status| {
                    assert!(!status.success(), "a rank was killed");
                    None
                }),
                Running::Pvm(task) => task.ended().map(|status| Some(code(status))),
            }
        });
        let _none = all.insert(self.pids[0], first);
        all
    }
}

/// Writes a number to the memory of a process, unless it has ended. A thread that has ended has no
/// memory, be it the first.
fn put(pid: u32, address: u64, number: u64) {
    use std::os::unix::fs::FileExt as _;
    for task in tasks(pid) {
        let memory = std::fs::File::options().write(true).open(task.join("mem"));
        let _ended = memory.and_then(|it| it.write_all_at(&number.to_le_bytes(), address));
    }
}

/// As a shell reports it.
fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|it| 128 + it)).unwrap()
}

/// The threads and zombies of our own program, with their states and the pid of their tracer.
pub fn left() -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() != NAME {
            continue;
        }
        for task in std::fs::read_dir(entry.path().join("task")).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let words = ["Tgid:", "Pid:", "PPid:", "State:", "TracerPid:"];
            let lines = status.lines().filter(|line| words.iter().any(|it| line.starts_with(it)));
            all.push(lines.map(|it| it.replace('\t', " ")).collect::<Vec<_>>().join(", "));
        }
    }
    all
}

/// Prints these where a wait fails.
pub struct PrintLeft;

impl Drop for Program {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for task in self.pids.iter().flat_map(|pid| tasks(*pid)) {
            let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
            let keys = ["State", "TracerPid", "SigPnd", "ShdPnd", "SigBlk"];
            let lines = status.lines().filter(|line| keys.iter().any(|key| line.starts_with(key)));
            println!("soak: {}: {}", task.display(), lines.collect::<Vec<_>>().join(", "));
        }
        if let Running::Own(target) = &self.running {
            let number = |name| target.number_unless_ended(target.at(name));
            println!("soak: begun {:?}, passed {:?}", number("begun"), number("counters"));
        }
    }
}

/// The folders of its threads.
fn tasks(pid: u32) -> Vec<PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    all.map(|it| it.path()).collect()
}

impl Drop for PrintLeft {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("soak: processes left: {:#?}", left());
        }
    }
}
