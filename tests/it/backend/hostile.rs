//! Texts that no kernel writes: cut, overwritten, random. Never a panic, and a note instead.

use super::tree::Copy;
use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::ProcessField;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::Sample;
use std::fs;

/// Rounds of spoiling every file of the tree.
const ROUNDS: u64 = 100;

/// The generator of Marsaglia, "Xorshift RNGs": the same numbers each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit.max(1)
    }

    /// Cuts a text, changes some bytes, or makes all of it up.
    fn spoil(&mut self, text: &mut Vec<u8>) {
        match self.below(4) {
            0 => text.truncate(self.below(text.len() + 1)),
            1 => text.iter_mut().for_each(|byte| *byte = self.next().to_le_bytes()[3]),
            2 => text.extend_from_within(..),
            _ => {
                for _ in 0..1 + self.below(8) {
                    let at = self.below(text.len());
                    let odd = [0, b'\n', b')', b'(', b':', b'-', b'9', b' ', 0xff, b'\t'];
                    if let Some(byte) = text.get_mut(at) {
                        *byte = odd[self.below(odd.len())];
                    }
                }
            }
        }
    }
}

fn everything() -> ReadSpec {
    let costly = vec![ProcessField::Pss, ProcessField::Cmdline, ProcessField::Cgroup];
    ReadSpec { threads: true, costly, ..ReadSpec::everything() }
}

fn read(tree: &Copy) -> Sample {
    let mut backend = Procfs::open(Root::below(&tree.path)).unwrap();
    let mut sample = backend.read(&everything()).unwrap();
    backend.describe(&mut sample.processes, &everything());
    sample
}

#[test]
fn no_text_makes_the_backend_panic() {
    let tree = Copy::of_fixture("hostile");
    let texts: Vec<_> =
        tree.files().into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..ROUNDS {
        for (text, file) in &texts {
            let mut text = text.clone();
            random.spoil(&mut text);
            fs::write(file, text).unwrap();
        }
        let _sample = read(&tree);
    }
}

#[test]
fn a_text_that_makes_no_sense_is_noted_and_the_rest_read() {
    let tree = Copy::of_fixture("noted");
    tree.write("proc/10/io", "rchar: 1\nwch");
    tree.write("proc/2/stat", "2 (kthreadd");
    let sample = read(&tree);
    assert_eq!(sample.processes.len(), 1);
    assert_eq!(sample.processes[0].row.get(ProcessField::ReadBytes), None);
    assert!(sample.processes[0].row.get(ProcessField::Rss).is_some());
    let text = "2 files of /proc malformed, first 2/stat (no comm)";
    assert!(
        sample.notes.iter().any(|note| note.partial && note.text == text),
        "{:?}",
        sample.notes
    );
}

#[test]
fn a_hidden_proc_is_noted() {
    let tree = Copy::of_fixture("hidden");
    let proc = tree.path.join("proc");
    let mount =
        |options| format!("22 27 0:21 / {} rw,nosuid - proc proc rw,{options}\n", proc.display());
    tree.write("proc/self/mountinfo", mount("hidepid=invisible"));
    tree.write("proc/self/status", "CapEff:\t0000000000000000\n");
    let said =
        |sample: &Sample| sample.notes.iter().any(|it| it.text.contains("hidepid=invisible"));
    assert!(said(&read(&tree)));
    tree.write("proc/self/status", "CapEff:\t00000000000fffff\n");
    assert!(!said(&read(&tree)), "with CAP_SYS_PTRACE nothing is hidden");
}
