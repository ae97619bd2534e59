//! Message queues of real libraries and of the system: read without removing messages.

use super::fixture::Build;
use super::mpi::{OPEN_MPI, Ranks};
use super::pvm::Pvm;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use monitor_platform::message_queue;
use monitor_platform::{QueueAnswer, QueueContent, QueueDetail, QueueQuery, QueuedMessage};
use monitor_symbols::SymbolError;
use std::path::Path;
use std::process::Command;

fn answer(pid: Pid, query: QueueQuery) -> Result<QueueAnswer, SymbolError> {
    message_queue::answer(Path::new("/proc"), pid, &query)
}

fn insert(pid: Pid, at: Option<usize>, content: &[u8]) -> Result<QueueAnswer, SymbolError> {
    answer(pid, QueueQuery::Insert(at, content.to_vec()))
}

fn remove(pid: Pid, at: usize) -> Result<QueueAnswer, SymbolError> {
    answer(pid, QueueQuery::Remove(at))
}

fn messages(pid: Pid, depth: QueueDetail) -> Vec<QueuedMessage> {
    match answer(pid, QueueQuery::Read(depth)).unwrap() {
        QueueAnswer::Content(QueueContent::Messages(messages)) => messages,
        other => panic!("no messages: {other:?}"),
    }
}

fn heads(pid: Pid) -> Vec<(Option<i64>, i64, u64)> {
    messages(pid, QueueDetail::Headers).iter().map(|it| (it.sender, it.tag, it.bytes)).collect()
}

#[test]
fn root_messages_that_arrived_in_a_pvm_task_are_listed_in_order() {
    const TEST: &str = "root_messages_that_arrived_in_a_pvm_task_are_listed_in_order";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (mut sender, mut receiver) = (pvm.task(), pvm.task());
    assert_eq!(heads(receiver.pid()), []);
    let _sent = sender.run(&format!("many 5 {} 100", receiver.tid));
    // A message in the socket has not arrived: the library reads it at the next call.
    let _sent = sender.run(&format!("send {} 999 1", receiver.tid));
    crate::deadline::until(|| (receiver.run("probe 999") == "1").then_some(()));
    let from = Some(sender.tid);
    let mut want: Vec<_> = (0i64..5).map(|n| (from, 100 + n, 10 * n.cast_unsigned())).collect();
    want.push((from, 999, 1));
    assert_eq!(heads(receiver.pid()), want);
    let whole = messages(receiver.pid(), QueueDetail::Contents);
    assert_eq!(whole[3].content, [b'a' + 103 % 26; 30]);
    let took = receiver.run(&format!("receive {} 102", sender.tid));
    assert!(took.ends_with(&format!(" 20 102 {}", sender.tid)), "{took}");
    let _received = want.remove(2);
    assert_eq!(heads(receiver.pid()), want);
}

#[test]
fn root_the_send_buffer_of_a_pvm_task_is_found() {
    const TEST: &str = "root_the_send_buffer_of_a_pvm_task_is_found";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let mut task = pvm.task();
    let pid = task.pid();
    let buffer = || answer(pid, QueueQuery::SendBuffer);
    assert!(matches!(buffer(), Err(SymbolError::Unavailable { .. })));
    assert_eq!(task.run("pack 77"), "0");
    let QueueAnswer::SendBuffer(address, size) = buffer().unwrap() else { panic!("no buffer") };
    assert_ne!(address, 0);
    assert_eq!(size, 77);
}

#[test]
fn root_unexpected_messages_of_open_mpi_are_listed() {
    const TEST: &str = "root_unexpected_messages_of_open_mpi_are_listed";
    if !granted(TEST) {
        return;
    }
    let Some(mut ranks) = Ranks::start(TEST, &OPEN_MPI) else { return };
    assert_eq!(heads(ranks.pids[1]), []);
    ranks.run("fill 5");
    let want: Vec<_> =
        (0i64..5).map(|n| (Some(0), 300 + n, 8 * (10 + n.cast_unsigned()))).collect();
    assert_eq!(heads(ranks.pids[1]), want);
    assert_eq!(messages(ranks.pids[1], QueueDetail::Contents)[4].content, [0; 8 * 14]);
}

fn with_queue(test: &str, kind: &str) -> Option<Guarded> {
    let build = Build { test, source: "queues.c", product: "queues", words: &["-O1", "-lrt"] };
    let mut program = Guarded::run(Command::new(build.done()?).arg(kind));
    assert_eq!(program.line(), "ready");
    Some(program)
}

#[test]
fn root_a_system_v_queue_is_read_without_removing_messages() {
    const TEST: &str = "root_a_system_v_queue_is_read_without_removing_messages";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = with_queue(TEST, "sysv") else { return };
    let pid = program.pid();
    assert_eq!(heads(pid), [(None, 1, 1), (None, 2, 2), (None, 1, 3)]);
    assert_eq!(heads(pid), [(None, 1, 1), (None, 2, 2), (None, 1, 3)]);
    assert_eq!(messages(pid, QueueDetail::Contents)[1].content, b"ba");
    // The last process to read from the queue becomes its user; so far that is the program.
    let error = remove(pid, 2).unwrap_err().to_string();
    assert!(error.contains("first of each type"), "{error}");
    let error = insert(pid, Some(1), b"new").unwrap_err().to_string();
    assert!(error.contains("at the end only"), "{error}");
    assert_eq!(insert(pid, Some(3), b"new").unwrap(), QueueAnswer::Done);
    assert_eq!(heads(pid)[3], (None, 1, 3));
    assert_eq!(remove(pid, 1).unwrap(), QueueAnswer::Done);
    drop(program.0.stdin.take());
    assert!(program.0.wait().unwrap().success());
}

#[test]
fn root_a_posix_queue_has_a_length_and_is_changed_at_its_ends() {
    const TEST: &str = "root_a_posix_queue_has_a_length_and_is_changed_at_its_ends";
    if !granted(TEST) {
        return;
    }
    let Some(program) = with_queue(TEST, "posix") else { return };
    let pid = program.pid();
    let held = |n| QueueAnswer::Content(QueueContent::Length(n));
    let length = || answer(pid, QueueQuery::Read(QueueDetail::Headers)).unwrap();
    assert_eq!(length(), held(3));
    assert_eq!(insert(pid, None, b"new").unwrap(), QueueAnswer::Done);
    assert_eq!(length(), held(4));
    let error = remove(pid, 1).unwrap_err().to_string();
    assert!(error.contains("the first only"), "{error}");
    for left in (0..4).rev() {
        assert_eq!(remove(pid, 0).unwrap(), QueueAnswer::Done);
        assert_eq!(length(), held(left));
    }
    assert!(remove(pid, 0).is_err());
}

#[test]
fn root_a_process_without_a_queue_is_an_error() {
    const TEST: &str = "root_a_process_without_a_queue_is_an_error";
    if !granted(TEST) {
        return;
    }
    let program = Guarded::sh("read line");
    let error = answer(program.pid(), QueueQuery::Read(QueueDetail::Headers)).unwrap_err();
    assert!(error.to_string().starts_with("no queue of this process: "), "{error}");
}
