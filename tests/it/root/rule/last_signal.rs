//! The signal that ends a process is delivered once, by its own number; an end without a signal
//! delivers none.

use super::RuleFixture;
use super::event::RECORD_TWO;
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::{Guarded, ebpf, processes};
use monitor_backend::Backend as _;
use monitor_backend::rule::rule_record::RuleRecord;
use monitor_backend::rule::{HookPoint, RuleProgram, Rules as _};
use monitor_model::event::{SampleEvent, SampleEventKind};
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;

/// How processes of five threads end, and the signals that each gets.
const ENDS: &[(&str, &[u32])] = &[
    ("os.kill(os.getpid(), 15)", &[15]),
    ("signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", &[2]),
    ("signal.pthread_kill(threading.main_thread().ident, 14)", &[14]),
    ("signal.alarm(1); time.sleep(1000)", &[14]),
    ("os.kill(os.getpid(), 9)", &[9]),
    ("os.kill(os.getpid(), 11)", &[11]),
    ("signal.pthread_kill(all[2].ident, 6)", &[6]),
    ("signal.signal(10, lambda *_: os._exit(3)); os.kill(os.getpid(), 10); time.sleep(9)", &[10]),
    ("os._exit(3)", &[]),
    ("os.execv('/bin/true', ['true'])", &[]),
];

/// `SIGCHLD`: the interpreter starts processes before the program.
const CHILD: u32 = 17;

/// Runs a process that ends so; its id.
fn end(how: &str) -> Pid {
    let mut child = Guarded::python(&format!(
        "
import os, signal, sys, threading, time
all = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(4)]
[it.start() for it in all]
print('ready', flush=True)
sys.stdin.readline()
{how}
time.sleep(1000)
"
    ));
    assert_eq!(child.line(), "ready");
    child.send_line("now");
    let _ = child.0.wait().unwrap();
    child.pid()
}

#[test]
fn root_the_signal_that_ends_a_process_is_one_event_with_its_number() {
    if !granted("root_the_signal_that_ends_a_process_is_one_event_with_its_number") {
        return;
    }
    let mut backend = ebpf(&[Capability::Signals]);
    let pids: Vec<_> = ENDS.iter().map(|(how, _)| end(how)).collect();
    let events = backend.read(&processes()).unwrap().events;
    for ((how, wanted), pid) in ENDS.iter().zip(pids) {
        let number = |event: &SampleEvent| match &event.kind {
            SampleEventKind::SignalDelivered { signal } if event.target.pid == pid => {
                Some(signal.number)
            }
            _ => None,
        };
        let numbers = events.iter().filter_map(number);
        let delivered: Vec<_> = numbers.filter(|number| *number != CHILD).collect();
        assert_eq!(delivered, *wanted, "{how}");
    }
}

#[test]
fn root_a_rule_runs_once_for_the_signal_that_ends_a_process() {
    if !granted("root_a_rule_runs_once_for_the_signal_that_ends_a_process") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let of_all = RuleProgram::new(HookPoint::SignalDeliver, None, RECORD_TWO.to_vec());
    let taken = fixture.rules.add(&of_all).unwrap();
    fixture.rules.enable(taken);
    let pids: Vec<_> = ENDS.iter().map(|(how, _)| end(how)).collect();
    let wanted: usize = ENDS.iter().map(|(_, wanted)| wanted.len()).sum();
    let mut records = Vec::new();
    deadline::until(|| {
        records.extend(fixture.take_records());
        let is_end = |it: &&RuleRecord| {
            pids.iter().any(|pid| it.regs[0] == u64::from(pid.0)) && it.regs[1] != u64::from(CHILD)
        };
        (records.iter().filter(is_end).count() >= wanted).then_some(())
    });
    for ((how, wanted), pid) in ENDS.iter().zip(pids) {
        let mine = records.iter().filter(|it| it.program == taken);
        let mine = mine.filter(|it| it.regs[0] == u64::from(pid.0));
        let numbers = mine.map(|it| u32::try_from(it.regs[1]).unwrap());
        let delivered: Vec<_> = numbers.filter(|number| *number != CHILD).collect();
        assert_eq!(delivered, *wanted, "{how}");
    }
}
