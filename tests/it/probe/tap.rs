//! Taps: each library call of the watched processes is recorded with its values, and no other.

use super::fixture::Build;
use super::mpi::{Library, MPICH, OPEN_MPI, Ranks};
use super::pvm::Pvm;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use monitor_backend::rule::Children;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_loader::rule::KernelRules;
use monitor_model::id::Pid;
use monitor_platform::tap::{CallRecord, TapEvent, Taps};
use monitor_symbols::signatures::Signatures;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const OWN: &str = "library \"calls\";
    struct pair { int first @ 0; string word @ 8; short last @ 16; };
    int eight(int a, long b, short c, unsigned char d, int e, int f, int g, out pair *out,
              out int *last);";

fn program(test: &str) -> Option<Guarded> {
    let words = ["-O1", "-fno-builtin"];
    let path = Build { test, source: "calls.c", product: "calls", words: &words }.done()?;
    let mut program = Guarded::run(&mut Command::new(path));
    assert_eq!(program.line(), "ready");
    Some(program)
}

/// The same program, built otherwise: its error number is elsewhere.
fn other_program(test: &str, product: &str, words: &[&str]) -> Option<Guarded> {
    let words = [&["-O1", "-fno-builtin"], words].concat();
    let path = Build { test, source: "calls.c", product, words: &words }.done()?;
    let mut program = Guarded::run(&mut Command::new(path));
    assert_eq!(program.line(), "ready");
    Some(program)
}

/// Taps the start and the end of these functions in these processes.
fn taps(names: &[&str], pids: &[Pid]) -> Taps {
    let mut all = Signatures::shipped();
    all.add(Path::new("own.calls"), OWN).unwrap();
    all.add(Path::new("static.calls"), STATIC).unwrap();
    let rules = Box::new(KernelRules::open().unwrap());
    let children = Children::NotIncluded;
    let mut taps = Taps::new(Path::new("/proc"), rules, Arc::new(all), children).unwrap();
    let pids: BTreeSet<Pid> = pids.iter().copied().collect();
    let both = |name: &&str| [Edge::Start, Edge::End].map(|edge| Tap::new(*name, edge));
    let all = names.iter().flat_map(both).map(|tap| (tap, pids.clone()));
    taps.set_taps(&all.collect());
    taps
}

/// Returns the calls so far, by edge.
fn calls(taps: &mut Taps) -> [Vec<CallRecord>; 2] {
    let events = taps.read_events(usize::MAX);
    let called = events.into_iter().map(|it| match it {
        TapEvent::Call(it) => it,
        other => panic!("{other:?}"),
    });
    assert_eq!(taps.n_lost(), 0);
    let (start, end) = called.partition(|it| it.tap.edge == Edge::Start);
    [start, end]
}

/// Returns the printed values of a call.
fn shown(called: &CallRecord) -> Vec<String> {
    let values = called.plan.values.iter().zip(&called.values);
    values.map(|(plan, value)| value.to_text(plan)).collect()
}

/// The call of a static program, by the name of its file.
const STATIC: &str = "library \"static\"; int open(string path, int flags) fails -1;";

#[test]
fn root_each_program_has_its_own_errno() {
    const TEST: &str = "root_each_program_has_its_own_errno";
    if !granted(TEST) {
        return;
    }
    // The specs of musl-gcc: its dynamic linker, and no library of glibc.
    let is_musl = Path::new("/usr/lib/x86_64-linux-musl/musl-gcc.specs");
    assert!(is_musl.exists(), "needs the specs of musl-gcc (apt install musl-tools)");
    let specs = format!("-specs={}", is_musl.display());
    let (Some(small), Some(large), Some(fixed), Some(musl), Some(musl_fixed)) = (
        program(TEST),
        other_program(TEST, "larger", &["-DOWN_TLS=4096"]),
        other_program(TEST, "static", &["-static", "-DOWN_TLS=8192"]),
        other_program(TEST, "musl", &[&specs]),
        other_program(TEST, "static-musl", &[&specs, "-static"]),
    ) else {
        return;
    };
    let mut programs = [small, large, fixed, musl, musl_fixed];
    let pids = programs.each_ref().map(Guarded::pid);
    let mut taps = taps(&["open"], &pids);
    for (index, program) in programs.iter_mut().enumerate() {
        program.send_line("open 23");
        assert_eq!(program.line(), "done");
        let [_, end] = calls(&mut taps);
        let shown: Vec<_> = end.iter().map(shown).collect();
        assert_eq!(shown, vec![["-1", "2"]; 23], "program {index}");
    }
}

#[test]
fn root_23_failed_calls_have_their_errno() {
    const TEST: &str = "root_23_failed_calls_have_their_errno";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = program(TEST) else { return };
    let mut taps = taps(&["libc:open"], &[program.pid()]);
    program.send_line("open 23");
    assert_eq!(program.line(), "done");
    let [start, end] = calls(&mut taps);
    let want = |n| [format!("\"/nonexistent/{n}\""), "O_RDWR|O_CREAT".to_owned()];
    assert_eq!(start.iter().map(shown).collect::<Vec<_>>(), (0..23).map(want).collect::<Vec<_>>());
    assert_eq!(end.iter().map(shown).collect::<Vec<_>>(), vec![["-1", "2"]; 23]);
    assert!(start.iter().chain(&end).all(|it| it.pid == program.pid() && it.tid == it.pid));
}

#[test]
fn root_a_buffer_is_recorded_up_to_its_length() {
    const TEST: &str = "root_a_buffer_is_recorded_up_to_its_length";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = program(TEST) else { return };
    let mut taps = taps(&["libc:write", "libc:read"], &[program.pid()]);
    program.send_line("pipe 23");
    assert_eq!(program.line(), "done");
    let [start, end] = calls(&mut taps);
    let is = |name: &'static str| move |it: &&CallRecord| it.tap.name == name;
    // The replies of the program to the test use the same function, and come last.
    let written: Vec<_> = start.iter().filter(is("libc:write")).take(23).collect();
    // Commands of the test to the program are shorter, or text.
    let is_readable = |it: &&CallRecord| it.values[0].raw >= Some(5) && it.values[2].text.is_some();
    let is_data =
        |it: &&CallRecord| it.values[2].text.as_ref().is_some_and(|it| !it.starts_with(b"pipe"));
    let read = end.iter().filter(is("libc:read")).filter(is_readable).filter(is_data);
    let read: Vec<_> = read.collect();
    for (n, it) in (0..).zip(&written) {
        let bytes = vec![n; 5 * usize::from(n)];
        assert_eq!(it.values[1].text.as_deref(), Some(&bytes[..]));
        assert_eq!(it.values[2].raw, Some(5 * u64::from(n)));
    }
    assert_eq!(written.len(), 23);
    for (n, it) in (1..23).zip(&read) {
        let bytes = vec![n; 5 * usize::from(n)];
        assert_eq!(it.values[0].raw, Some(5 * u64::from(n)), "{it:?}");
        assert_eq!(it.values[1].raw, Some(0), "the call succeeded");
        assert_eq!(it.values[2].text.as_deref(), Some(&bytes[..]));
    }
}

#[test]
fn root_stack_arguments_and_output_parameters_are_recorded() {
    const TEST: &str = "root_stack_arguments_and_output_parameters_are_recorded";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = program(TEST) else { return };
    let mut taps = taps(&["eight"], &[program.pid()]);
    program.send_line("eight 23");
    assert_eq!(program.line(), "done");
    let [start, end] = calls(&mut taps);
    assert_eq!((start.len(), end.len()), (23, 23));
    for (n, (start, end)) in (0..).zip(start.iter().zip(&end)) {
        let want = [n, -n, n, 200, n, 1, 1000].map(|it: i64| it.to_string());
        assert_eq!(shown(start), want);
        let want = [-n, 1000 + n].map(|it| it.to_string());
        let [result, first, word, rest @ ..] = &shown(end)[..] else { panic!("{end:?}") };
        assert_eq!([result, first], want.each_ref());
        assert_eq!(word, "\"word\"");
        assert_eq!(rest, [-n, 201 + n].map(|it| it.to_string()));
    }
}

#[test]
fn root_other_processes_are_not_recorded_and_probes_are_removed() {
    const TEST: &str = "root_other_processes_are_not_recorded_and_probes_are_removed";
    if !granted(TEST) {
        return;
    }
    let (Some(mut watched), Some(mut other)) = (program(TEST), program(TEST)) else { return };
    let mut taps = taps(&["libc:open"], &[watched.pid()]);
    for program in [&mut other, &mut watched] {
        program.send_line("open 5");
        assert_eq!(program.line(), "done");
    }
    let [start, _] = calls(&mut taps);
    assert_eq!(start.iter().map(|it| it.pid).collect::<Vec<_>>(), [watched.pid(); 5]);
    taps.set_taps(&[].into());
    watched.send_line("open 5");
    assert_eq!(watched.line(), "done");
    assert!(taps.read_events(usize::MAX).is_empty());
}

#[test]
fn root_23_messages_of_pvm_are_23_calls_with_their_values() {
    const TEST: &str = "root_23_messages_of_pvm_are_23_calls_with_their_values";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (mut sender, mut receiver) = (pvm.task(), pvm.task());
    let names = ["pvm_send", "pvm_bufinfo", "libpvm3:mesg_input"];
    let mut taps = taps(&names, &[sender.pid(), receiver.pid()]);
    let _sent = sender.run(&format!("many 23 {} 100", receiver.tid));
    for n in 0..23 {
        let _took = receiver.run(&format!("receive {} {}", sender.tid, 100 + n));
    }
    let [start, end] = calls(&mut taps);
    let of = |all: &[CallRecord], name: &str| -> Vec<Vec<String>> {
        all.iter().filter(|it| it.tap.name == name).map(shown).collect()
    };
    let to = |n: i64| if n < 0 { format!("{n}") } else { n.to_string() };
    let sends: Vec<_> = (0..23).map(|n| vec![to(receiver.tid), to(100 + n)]).collect();
    assert_eq!(of(&start, "pvm_send"), sends);
    assert_eq!(of(&end, "pvm_send"), vec![["PvmOk"]; 23]);
    let infos: Vec<_> = (0..23)
        .map(|n| vec!["PvmOk".to_owned(), to(10 * n), to(100 + n), to(sender.tid)])
        .collect();
    assert_eq!(of(&end, "pvm_bufinfo"), infos);
    let arrived: Vec<_> = start
        .iter()
        .filter(|it| it.tap.name == "libpvm3:mesg_input" && it.pid == receiver.pid())
        .map(|it| shown(it)[..3].to_vec())
        .filter(|it| it[0] == to(sender.tid))
        .collect();
    let want: Vec<_> = (0..23).map(|n| vec![to(sender.tid), to(100 + n), to(10 * n)]).collect();
    assert_eq!(arrived, want);
}

#[test]
fn root_23_messages_of_open_mpi_are_23_calls_with_their_values() {
    const TEST: &str = "root_23_messages_of_open_mpi_are_23_calls_with_their_values";
    messages_of_mpi_are_calls(TEST, &OPEN_MPI);
}

#[test]
fn root_23_messages_of_mpich_are_23_calls_with_their_values() {
    const TEST: &str = "root_23_messages_of_mpich_are_23_calls_with_their_values";
    messages_of_mpi_are_calls(TEST, &MPICH);
}

fn messages_of_mpi_are_calls(test: &str, library: &Library) {
    if !granted(test) {
        return;
    }
    let Some(mut ranks) = Ranks::start(test, library) else { return };
    let mut taps = taps(&["MPI_Send", "MPI_Recv"], &ranks.pids);
    ranks.run("go 23");
    let [start, end] = calls(&mut taps);
    let of = |all: &[CallRecord], name: &str, rank: usize, from: usize, to: usize| -> Vec<_> {
        let mine = all.iter().filter(|it| it.tap.name == name && it.pid == ranks.pids[rank]);
        mine.map(|it| shown(it)[from..to].to_vec()).collect()
    };
    let text = |it: [i64; 3]| it.map(|it| it.to_string()).to_vec();
    let sends: Vec<_> = (0..23).map(|n| text([10 + n, 1, 100 + n])).collect();
    let sent = start.iter().filter(|it| it.tap.name == "MPI_Send" && it.pid == ranks.pids[0]);
    let values = |it: &CallRecord| [1, 3, 4].map(|at| shown(it)[at].clone()).to_vec();
    assert_eq!(sent.map(values).collect::<Vec<_>>(), sends);
    assert_eq!(of(&end, "MPI_Send", 0, 0, 1), vec![["MPI_SUCCESS"]; 23]);
    // The seventh argument is a pointer on the stack, to a structure that the call writes.
    let received = of(&end, "MPI_Recv", 1, 2, 5);
    assert_eq!(received, (0..23).map(|n| text([0, 100 + n, 0])).collect::<Vec<_>>());
    let asked = of(&start, "MPI_Recv", 1, 0, 1);
    assert_eq!(asked, vec![["256"]; 23]);
}
