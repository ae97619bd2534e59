//! What a session says before, while and after its program runs, and what it refuses.

use super::*;
use crate::session::MAX_TEXT;
use std::task::Waker;

fn record() -> Arc<SessionRecord> {
    let user = User { uid: 7, gid: 7, groups: vec![7] };
    let place = SessionPlace { folder: "/run/s".into(), job: None };
    SessionRecord::new(3, user, (place, b"PATH=/bin\n"))
}

fn wait(record: &SessionRecord) -> Option<String> {
    match record.poll_wait(&record.wait_place(), &Context::from_waker(Waker::noop())) {
        Poll::Ready(text) => Some(text),
        Poll::Pending => None,
    }
}

fn exec(record: &SessionRecord, line: &str) -> Result<Remaining, Refusal> {
    record.control(line.as_bytes()).map_err(|it| it.refusal)
}

#[test]
fn a_program_is_executed_once_and_waited_for() {
    let it = record();
    assert_eq!((wait(&it), it.process_text()), (None, "-1".to_owned()));
    assert!(matches!(exec(&it, "exec /bin/a"), Ok(Remaining::Ask(LaunchCommand::Exec(_)))));
    assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
    it.started(77);
    assert_eq!((wait(&it), it.process_text()), (None, "77".to_owned()));
    it.ended(Ending { code: Some(3), user_ms: 1, real_ms: 9, ..Ending::default() });
    assert_eq!(wait(&it).as_deref(), Some("3 exit 3 1 0 9 0\n"));
    assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
    assert_eq!(exec(&it, "signal 9"), Err(Refusal::NoProcess));
    it.wiped(None);
    assert_eq!(wait(&it).as_deref(), Some("3 exit 3 1 0 9 0\n"));
}

#[test]
fn a_failed_exec_is_reported_and_can_be_repeated() {
    let it = record();
    let _ask = exec(&it, "exec /absent").expect("a command");
    it.not_started(&SessionError::new(Refusal::Kernel(2), "absent"));
    assert_eq!(wait(&it).as_deref(), Some("127 execfail 2 0 0 0 0\n"));
    let _ask = exec(&it, "exec /bin/a").expect("a command");
    it.started(77);
    assert_eq!(wait(&it), None);
    it.ended(Ending { signal: Some(9), ..Ending::default() });
    assert_eq!(wait(&it).as_deref(), Some("137 signal 9 0 0 0 0\n"));
}

#[test]
fn a_session_is_unused_without_files_and_program() {
    let it = record();
    let hold = it.hold().expect("room");
    assert!(!it.is_unused());
    drop(hold);
    assert!(it.is_unused());
    let _ask = exec(&it, "exec /bin/a").expect("a command");
    assert!(!it.is_unused());
    it.started(77);
    it.ended(Ending::default());
    assert!(it.is_unused());
    assert_eq!(exec(&it, "type persistent"), Ok(Remaining::Nothing));
    assert!(!it.is_unused());
    assert_eq!(exec(&it, "type normal"), Ok(Remaining::Nothing));
    assert!(it.is_unused());
    it.wiped(None);
    assert_eq!(exec(&it, "type normal"), Err(Refusal::NoProcess));
}

#[test]
fn an_attached_session_ends_with_the_file_that_has_made_it() {
    let it = record();
    let maker = it.hold_by_maker().expect("room");
    let file = it.hold().expect("room");
    assert_eq!(exec(&it, "type attached"), Ok(Remaining::Nothing));
    drop(file);
    assert!(!it.is_ending() && !it.is_unused());
    drop(maker);
    assert!(it.is_ending());
    let other = record();
    let maker = other.hold_by_maker().expect("room");
    drop(maker);
    assert_eq!(exec(&other, "type attached"), Err(Refusal::Closed));
    assert!(!other.is_ending());
}

#[test]
fn a_text_is_written_in_parts_within_its_limit() {
    let it = record();
    it.write_text(TextFile::Argv, 0, b"abc").expect("room");
    it.write_text(TextFile::Argv, 5, b"x").expect("room");
    assert_eq!(it.text(TextFile::Argv), b"abc\0\0x");
    assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Invalid));
    it.clear_text(TextFile::Argv);
    assert_eq!(it.text_length(TextFile::Argv), (0, 3));
    for at in [MAX_TEXT as u64, u64::MAX, u64::MAX - 1] {
        let refused = it.write_text(TextFile::Argv, at, b"xy").map_err(|it| it.refusal);
        assert_eq!(refused, Err(Refusal::TooLarge));
    }
}

#[test]
fn a_session_that_was_wiped_has_an_answer_for_all_that_wait() {
    let it = record();
    assert_eq!(wait(&it), None);
    it.wiped(None);
    assert_eq!(wait(&it).as_deref(), Some("0 wiped 0 0 0 0 0\n"));
}

#[test]
fn no_program_is_executed_while_a_copy_comes_in() {
    let it = record();
    it.begin_copy().expect("no program was executed");
    assert_eq!(exec(&it, "exec /bin/a"), Err(Refusal::Busy));
    assert_eq!(exec(&it, "clone 2 a/1/k"), Err(Refusal::Busy));
    it.end_copy(Some((b"a b".to_vec(), b"A=1".to_vec())));
    assert_eq!((it.text(TextFile::Argv), it.text_length(TextFile::Env)), (b"a b".to_vec(), (3, 1)));
    assert!(matches!(exec(&it, "clone 2 a/1/k"), Ok(Remaining::Copy(2, _))));
    assert!(matches!(exec(&it, "exec /bin/a"), Ok(Remaining::Ask(_))));
    assert_eq!(it.begin_copy().map_err(|it| it.refusal), Err(Refusal::Busy));
}

#[test]
fn the_outcomes_of_a_clone_stay_until_another_refusal() {
    let it = record();
    it.set_outcomes("a/1 copied\n".to_owned());
    assert_eq!(it.error(), "a/1 copied\n");
    it.refused(&SessionError::new(Refusal::Incomplete, "clone: 1 failed"));
    assert_eq!(it.error(), "clone: 1 failed\na/1 copied\n");
    it.refused(&SessionError::new(Refusal::Invalid, "odd"));
    assert_eq!(it.error(), "odd\n");
}

#[test]
fn open_files_of_a_session_are_limited() {
    let it = record();
    let all: Vec<_> = std::iter::from_fn(|| it.hold().ok()).collect();
    assert_eq!(all.len(), MAX_OPEN);
    assert_eq!(it.hold().err().map(|it| it.refusal), Some(Refusal::TryAgain));
    drop(all);
    assert!(it.hold().is_ok());
}

#[test]
fn an_id_changes_by_its_parts() {
    let it = record();
    assert_eq!(it.id(), "/0");
    let _done = (exec(&it, "id 7/"), exec(&it, "id /3"));
    assert_eq!(it.id(), "7/3");
}
