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
use monitor_backend::rule::act::{Act, Recorded, Set};
use monitor_backend::rule::told::{Tally, Told};
use monitor_backend::rule::{Children, List, ListId, Place, Reader, Rules, Site};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_model::id::Pid;

/// Makes the C library's functions callable as `l.name`.
const LIBRARY: &str = "import ctypes; l = ctypes.CDLL(None); l.labs.restype = ctypes.c_long; \
                       l.labs.argtypes = [ctypes.c_long]; it = 0";

/// Rules and the target that they are for.
struct Scene {
    rules: KernelRules,
    reader: Box<dyn Reader>,
    target: Actor,
    set: Set,
}

impl Scene {
    fn new() -> Self {
        let mut rules = KernelRules::open().unwrap();
        let reader = rules.take_reader().unwrap();
        let mut target = Actor::new();
        let _ = target.does(LIBRARY);
        let set = rules.make_set(Children::Included).unwrap();
        rules.include(set, target.pid()).unwrap();
        Self { rules, reader, target, set }
    }

    /// Where a function of the C library stands in its file.
    fn function(&mut self, name: &str) -> Site {
        let statement = format!("it = ctypes.cast(l.{name}, ctypes.c_void_p).value");
        site(self.target.pid(), self.target.does(&statement))
    }

    /// An enabled list for the target.
    #[track_caller]
    fn list(&mut self, place: Place, acts: &[Act]) -> ListId {
        self.limited(place, acts, None)
    }

    #[track_caller]
    fn limited(&mut self, place: Place, acts: &[Act], limit: Option<u32>) -> ListId {
        let list = List { limit, ..List::new(place, Some(self.set), acts.to_vec()) };
        let id = self.rules.add(&list).unwrap();
        self.rules.enable(id);
        id
    }

    /// Everything that was told until now.
    fn told(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        let _ = self.reader.read(usize::MAX, &mut |it| told.push(it));
        told
    }

    /// That nothing was lost, and how often the list ran.
    #[track_caller]
    fn runs(&self, id: ListId) -> u64 {
        let tally = self.rules.tally(id);
        assert_eq!(tally, Tally { runs: tally.runs, ..Tally::default() });
        tally.runs
    }
}

/// A record of all values.
const RECORD: Act = Act::Record(Recorded { texts: 0, stack: false, urgent: true, holds: None });

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
