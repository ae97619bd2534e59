//! Texts of `/proc`: each file of a process and of the node, changed.

use super::input::{Random, input};
use super::trial::{Border, MAX_MEMORY, run};
use super::{files, tests};

use monitor_model::{Node, NodeRow, Pid};
use monitor_proc::{cpu, io, maps, memory, pressure, schedstat, smaps, stat, status};
use std::path::{Path, PathBuf};

const WORDS: &[&[u8]] = &[
    b"\n",
    b" ",
    b"\t",
    b")",
    b"(",
    b":",
    b"-",
    b" kB",
    b"(a) b) ",
    b"\\012",
    b" (deleted)",
    b"cpu0 ",
    b"some avg10=",
    b"\0",
    b"\xff",
];
/// Of these inputs, one is given to the readers that open files.
const FILE_READERS: usize = 16;

fn read(kind: usize, text: &[u8], folder: &Path) {
    match kind {
        0 => _ = stat::parse(text).map(|it| it.generation()),
        1 => {
            _ = (status::parse(text), status::switches(text), status::effective_capabilities(text))
        }
        2 => _ = io::parse(text),
        3 => _ = schedstat::parse(text),
        4 => _ = smaps::parse(text),
        5 => cpu::parse(&mut Node::default(), text, 10_000_000),
        6 => memory::parse(&mut NodeRow::default(), text),
        7 => {
            std::fs::write(folder.join("7/maps"), text).unwrap();
            _ = maps::mappings(folder, Pid(7));
        }
        _ => {
            std::fs::write(folder.join("pressure/cpu"), text).unwrap();
            pressure::read(folder, &mut NodeRow::default(), &mut Vec::new());
        }
    }
}

#[test]
fn any_text_of_proc_is_read_or_refused() {
    let process = |name: &str| std::fs::read(tests("fixture/node/proc/10").join(name)).unwrap();
    let node = |name: &str| std::fs::read(tests("fixture/node/proc").join(name)).unwrap();
    let own_maps = std::fs::read("/proc/self/maps").unwrap();
    let (_, pressure) = files("fixture/node/proc/pressure").swap_remove(0);
    let mut samples = ["stat", "status", "io", "schedstat", "smaps_rollup"].map(process).to_vec();
    samples.extend([node("stat"), node("meminfo"), own_maps[..2000].to_vec(), pressure]);
    let folder = PathBuf::from(format!("/dev/shm/monitor-fuzz-{}", std::process::id()));
    for name in ["7", "pressure"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let border = Border { name: "texts of /proc", max_memory: MAX_MEMORY };
    let make = |random: &mut Random| {
        let kind = match random.below(FILE_READERS) {
            0 => 7 + random.below(2),
            _ => random.below(7),
        };
        let mut text = input(random, &samples[kind..=kind], WORDS);
        text.push(u8::try_from(kind).unwrap());
        text
    };
    run(border, make, |bytes| {
        let (kind, text) = bytes.split_last().unwrap();
        read((*kind).into(), text, &folder);
    });
    std::fs::remove_dir_all(folder).unwrap();
}
