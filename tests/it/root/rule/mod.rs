//! Rules in the kernel: what a list counts and tells is what happened, exactly.
//!
//! The target is a Python process that calls the C library as it is told; nobody else's calls
//! count, because each list is for the set that the target is in.

mod asked;
mod call;
mod event;
mod limit;
mod set;
mod timer;

use super::actor::Actor;
use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions};
use monitor_backend::rule::rule_record::{RuleRecord, RunCounts};
use monitor_backend::rule::{
    Children, HookPoint, ProgramId, RecordReader, RuleProgram, Rules, Site,
};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_model::id::Pid;

/// Makes the C library's functions callable as `l.name`.
const LIBRARY: &str = "import ctypes; l = ctypes.CDLL(None); l.labs.restype = ctypes.c_long; \
                       l.labs.argtypes = [ctypes.c_long]; it = 0";

/// Rules and the target that they are for.
struct Scene {
    rules: KernelRules,
    reader: Box<dyn RecordReader>,
    target: Actor,
    set: ProcessSetId,
}

impl Scene {
    fn new() -> Self {
        let mut rules = KernelRules::open().unwrap();
        let reader = rules.take_reader().unwrap();
        let mut target = Actor::new();
        let _ = target.run(LIBRARY);
        let set = rules.make_set(Children::Included).unwrap();
        rules.include(set, target.pid()).unwrap();
        Self { rules, reader, target, set }
    }

    /// Where a function of the C library stands in its file.
    fn function(&mut self, name: &str) -> Site {
        let statement = format!("it = ctypes.cast(l.{name}, ctypes.c_void_p).value");
        site(self.target.pid(), self.target.run(&statement))
    }

    /// An enabled list for the target.
    #[track_caller]
    fn list(&mut self, place: HookPoint, acts: &[Insn]) -> ProgramId {
        self.limited(place, acts, None)
    }

    #[track_caller]
    fn limited(&mut self, place: HookPoint, acts: &[Insn], limit: Option<u32>) -> ProgramId {
        let list = RuleProgram { limit, ..RuleProgram::new(place, Some(self.set), acts.to_vec()) };
        let id = self.rules.add(&list).unwrap();
        self.rules.enable(id);
        id
    }

    /// Everything that was told until now.
    fn told(&mut self) -> Vec<RuleRecord> {
        let mut told = Vec::new();
        let _ = self.reader.read(usize::MAX, &mut |it| told.push(it));
        told
    }

    /// That nothing was lost, and how often the list ran.
    #[track_caller]
    fn runs(&self, id: ProgramId) -> u64 {
        let tally = self.rules.run_counts(id);
        assert_eq!(tally, RunCounts { runs: tally.runs, ..RunCounts::default() });
        tally.runs
    }
}

/// A record of all values.
const RECORD: Insn =
    Insn::Record(RecordOptions { texts: 0, stack: false, urgent: true, stop: None });

/// Which byte of which file an address of a process is.
fn site(pid: Pid, address: u64) -> Site {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.0)).unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (number(from), number(to));
        let offset = number(words.nth(1)?);
        let path = words.nth(2)?;
        let is_it = (from..to).contains(&address);
        is_it.then(|| Site { path: path.into(), offset: address - from + offset })
    });
    found.unwrap()
}
