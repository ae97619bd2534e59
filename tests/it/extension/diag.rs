//! `diag_`: unusual events of real processes, reported by threshold, at the end, and together.

use super::{done, tool};
use crate::deadline;
use crate::probe::fixture::Build;
use crate::probe::mpi::{OPEN_MPI, Ranks};
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use monitor_symbols::diag_probes;
use monitor_symbols::diag_probes::EventsPerHit;
use monitor_symbols::elf::ElfImage;
use monitor_symbols::object_file::ObjectFile;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

const SRQ: &str = "adding buffers in the SRQ";
const LATE: &str = "could not send in openib now, delaying";
/// Job 45493.1 of Open MPI 4, as mpirun sets it.
const JOB: &str = "2981429249";

fn built(test: &str) -> Option<PathBuf> {
    Build { test, source: "unusual.c", product: "unusual", words: &["-O2"] }.done()
}

/// The program as a rank of the job.
fn rank(path: &PathBuf, rank: u32) -> Guarded {
    let mut command = Command::new(path);
    command.env("PMIX_NAMESPACE", JOB).env("PMIX_RANK", rank.to_string());
    let mut it = Guarded::run(&mut command);
    assert_eq!(it.line(), "ready");
    it
}

/// A tool that watches all these processes, and prints what is traced.
fn watching(served: &Served, ranks: &[Guarded]) -> SocketSession {
    let pids: Vec<u32> = ranks.iter().map(|it| it.pid().0).collect();
    watching_these(served, &pids)
}

fn watching_these(served: &Served, pids: &[u32]) -> SocketSession {
    let mut talk = tool(served, pids);
    let trace = "2 [0] diag_traced(\"notifier\"): 3 [0] print($1,$5)";
    done(&mut talk, &[trace, "4 [0] enable(2)", "5 [0] diag_watch([])"]);
    talk
}

/// The next line that was traced, after its time, with the number of processes.
#[track_caller]
fn traced(talk: &mut SocketSession) -> String {
    let line = talk.line().expect("a line");
    let (head, tail) = line.split_once(" MPI_NOTIFIER_EVENT ").expect(&line);
    assert!(head.starts_with("3 [0] print(0,[\"TIME="), "{line}");
    tail.to_owned()
}

fn command(rank: &mut Guarded, what: &str) {
    rank.send_line(what);
    assert_eq!(rank.line(), "done");
}

#[test]
fn the_header_leaves_a_nop_of_one_byte_and_two_notes() {
    const TEST: &str = "the_header_leaves_a_nop_of_one_byte_and_two_notes";
    let Some(path) = built(TEST) else { return };
    let image = ElfImage::read(Arc::new(ObjectFile::open(&path, &path).unwrap())).unwrap();
    let mut found = diag_probes::in_image(&image).unwrap();
    found.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    let facts: Vec<_> = found
        .iter()
        .map(|(it, _)| {
            (it.name.as_str(), it.message.as_str(), it.count, it.delay_seconds, it.events_per_hit)
        })
        .collect();
    let want = [
        ("dropped", "messages were dropped", 1000, 0, EventsPerHit::Argument),
        ("sent_late", LATE, 1000, 60, EventsPerHit::One),
        ("srq_full", SRQ, 23, 0, EventsPerHit::One),
    ];
    assert_eq!(facts, want);
    for (_, address) in found {
        assert_eq!(image.code(address, 1).unwrap(), [0x90]);
    }
}

#[test]
fn root_a_static_probe_is_traced_at_its_threshold_and_after_sigkill() {
    const TEST: &str = "root_a_static_probe_is_traced_at_its_threshold_and_after_sigkill";
    if !granted(TEST) {
        return;
    }
    let Some(path) = built(TEST) else { return };
    let served = Served::start("ebpf");
    let mut ranks = [rank(&path, 3)];
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let origin = format!("FAMILY=45493 JOB=1 VPID=3 HOST={}", host.trim());
    let mut talk = watching(&served, &ranks);
    command(&mut ranks[0], "late 999");
    command(&mut ranks[0], "full 23");
    assert_eq!(traced(&mut talk), format!("{origin} EVENT=srq_full COUNT=23: {SRQ}\",1])"));
    let list = talk.request("6 [0] diag_list()");
    assert!(list.contains("\"sent_late\",1000,60.0,999,999,"), "{list}");
    command(&mut ranks[0], "full 7");
    // It kills itself, and says nothing any more.
    ranks[0].send_line("kill");
    let _status = ranks[0].0.wait().unwrap();
    let mut last = [traced(&mut talk), traced(&mut talk)];
    last.sort();
    assert_eq!(last[0], format!("{origin} EVENT=sent_late COUNT=999 (Finalize): {LATE}\",1])"));
    assert_eq!(last[1], format!("{origin} EVENT=srq_full COUNT=7 (Finalize): {SRQ}\",1])"));
}

#[test]
fn root_mpi_finalize_reports_the_rest_and_the_configuration_has_precedence() {
    const TEST: &str = "root_mpi_finalize_reports_the_rest_and_the_configuration_has_precedence";
    if !granted(TEST) {
        return;
    }
    let Some(path) = built(TEST) else { return };
    let config = "[diag]\nevents = [{ name = \"srq_full\", count = 100, delay = \"1h\" }]\n";
    let served = Served::started(config, monitor(), "ebpf");
    let mut ranks = [rank(&path, 0)];
    let mut talk = watching(&served, &ranks);
    command(&mut ranks[0], "full 123");
    assert!(traced(&mut talk).contains("EVENT=srq_full COUNT=123: "));
    command(&mut ranks[0], "full 150");
    command(&mut ranks[0], "finalize");
    assert!(traced(&mut talk).contains("EVENT=srq_full COUNT=150 (Finalize): "));
    assert!(served.log().contains("At finalize : 150 times, 273 in all : adding buffers"));
}

#[test]
fn root_reports_of_many_ranks_are_one_line() {
    const TEST: &str = "root_reports_of_many_ranks_are_one_line";
    if !granted(TEST) {
        return;
    }
    let Some(path) = built(TEST) else { return };
    let served = Served::started("[diag]\nfold = \"500ms\"\n", monitor(), "ebpf");
    let mut ranks: Vec<Guarded> = (0..5).map(|number| rank(&path, number)).collect();
    let mut talk = watching(&served, &ranks);
    for rank in &mut ranks {
        command(rank, "full 23");
    }
    assert!(traced(&mut talk).ends_with(" COUNT=23: adding buffers in the SRQ\",1])"));
    let (mut count, mut processes) = (0, 0);
    // A look at the counts may fall between the ranks: then there are two lines.
    while processes < 4 {
        let line = traced(&mut talk);
        let (_, rest) = line.split_once("COUNT=").unwrap();
        count += rest.split(':').next().unwrap().parse::<u32>().unwrap();
        processes += rest.rsplit([',', ']']).nth(1).unwrap().parse::<u32>().unwrap();
    }
    assert_eq!((count, processes), (4 * 23, 4));
}

#[test]
fn root_a_static_probe_stands_for_as_many_events_as_it_says() {
    const TEST: &str = "root_a_static_probe_stands_for_as_many_events_as_it_says";
    if !granted(TEST) {
        return;
    }
    let Some(path) = built(TEST) else { return };
    let served = Served::start("ebpf");
    let mut ranks = [rank(&path, 0)];
    let mut talk = watching(&served, &ranks);
    for what in ["drop 999", "drop 0", "drop -7"] {
        command(&mut ranks[0], what);
    }
    let counted = "\"dropped\",1000,0.0,999,999";
    deadline::until(|| talk.request("6 [0] diag_list()").contains(counted).then_some(()));
    command(&mut ranks[0], "drop 2000000000");
    assert!(traced(&mut talk).contains("EVENT=dropped COUNT=2000000999: "));
}

#[test]
fn root_what_ranks_of_open_mpi_have_left_at_finalize_is_one_line() {
    const TEST: &str = "root_what_ranks_of_open_mpi_have_left_at_finalize_is_one_line";
    if !granted(TEST) {
        return;
    }
    let Some(mut ranks) = Ranks::start_many(TEST, &OPEN_MPI, 4) else { return };
    let pids: Vec<u32> = ranks.pids.iter().map(|pid| pid.0).collect();
    let environ = std::fs::read_to_string(format!("/proc/{}/environ", pids[0])).unwrap();
    let namespace = environ.split('\0').find_map(|it| it.strip_prefix("PMIX_NAMESPACE="));
    let namespace: u32 = namespace.unwrap().parse().unwrap();
    let job = format!("FAMILY={} JOB={} VPID=", namespace >> 16, namespace & 0xffff);
    let served = Served::started("[diag]\nfold = \"5s\"\n", monitor(), "ebpf");
    let mut talk = watching_these(&served, &pids);
    // Each rank reports 1, 2 and so on to 23 at once.
    ranks.run("late 23");
    ranks.end();
    // The first at once, the three others together.
    let lines = [(276, 1), (3 * 276, 3)].map(|(count, processes)| {
        let line = traced(&mut talk);
        let (rank, rest) = line.strip_prefix(&job).expect(&line).split_once(' ').unwrap();
        let tail =
            format!(" EVENT=late COUNT={count} (Finalize): messages were late\",{processes}])");
        assert!(rest.ends_with(&tail), "{line}");
        rank.parse::<u32>().unwrap()
    });
    assert!(lines[0] < 4 && lines[1] < 4 && lines[0] != lines[1], "{lines:?}");
}
