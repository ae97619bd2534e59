//! Rules in the kernel: counts and records match the calls and events exactly.
//!
//! The target is a Python process that runs statements of the test and calls the C library. Calls
//! of other processes do not count: each rule program is limited to the target's process set.

mod call;
mod event;
mod last_signal;
mod limit;
mod request;
mod set;
mod share;
mod timer;

use super::actor::Actor;
use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions};
use monitor_backend::rule::rule_record::{RuleRecord, RunCounts};
use monitor_backend::rule::{
    Children, HookPoint, ProgramId, RecordReader, RuleProgram, Rules, Site,
};
use monitor_loader::rule::KernelRules;
use monitor_model::id::Pid;
use monitor_symbols::{elf::ElfImage, ends, object_file::ObjectFile, site::inside};
use std::sync::Arc;

/// Makes the C library's functions callable as `l.name`.
const LIBRARY: &str = "import ctypes; l = ctypes.CDLL(None); l.labs.restype = ctypes.c_long; \
                       l.labs.argtypes = [ctypes.c_long]; it = 0";

/// Rules and the target that they are for.
struct RuleFixture {
    rules: KernelRules,
    reader: Box<dyn RecordReader>,
    target: Actor,
    set: ProcessSetId,
}

impl RuleFixture {
    fn new() -> Self {
        let mut rules = KernelRules::open().unwrap();
        let reader = rules.take_reader().unwrap();
        let mut target = Actor::new();
        let _ = target.run(LIBRARY);
        let set = rules.make_set(Children::Included).unwrap();
        rules.include(set, target.pid()).unwrap();
        Self { rules, reader, target, set }
    }

    /// The position of a function of the C library in its file.
    fn function(&mut self, name: &str) -> Site {
        let statement = format!("it = ctypes.cast(l.{name}, ctypes.c_void_p).value");
        site(self.target.pid(), self.target.run(&statement))
    }

    /// Adds a rule program for the target and enables it.
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

    /// All records since the last call.
    fn take_records(&mut self) -> Vec<RuleRecord> {
        let mut records = Vec::new();
        let _ = self.reader.read(usize::MAX, &mut |it| records.push(it));
        records
    }

    /// How often the program ran; asserts that nothing was lost.
    #[track_caller]
    fn runs(&self, id: ProgramId) -> u64 {
        let counts = self.rules.run_counts(id);
        assert_eq!(counts, RunCounts { runs: counts.runs, ..RunCounts::default() });
        counts.runs
    }
}

/// The ends of the function that begins at a site.
fn ends(site: &Site) -> HookPoint {
    let file = Arc::new(ObjectFile::open(&site.path, &site.path).unwrap());
    let image = ElfImage::read(file).unwrap();
    let address = image.code_address(site.offset).unwrap();
    let found = ends::ends(&image, &inside(&image, address).unwrap()).unwrap();
    let at = |offset| Site { path: site.path.clone(), offset };
    HookPoint::Ends(found.returns.into_iter().map(at).collect())
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
