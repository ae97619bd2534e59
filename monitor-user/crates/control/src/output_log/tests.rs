//! Logs whose writers and readers are threads.

use super::*;

fn source(rank: u32) -> OutputSource {
    OutputSource { group: "job".into(), rank: Some(rank), is_error: false }
}

fn all(reader: &OutputReader) -> String {
    let parts = std::iter::from_fn(|| reader.next_part(OutputWait::No));
    parts.map(|it| String::from_utf8(it.bytes.to_vec()).unwrap()).collect()
}

#[test]
fn each_reader_gets_all_that_is_kept_and_the_number_of_bytes_that_are_not() {
    let log = OutputLog::new(3 * (OVERHEAD + 1));
    for text in ["a", "b", "c", "d", "e"] {
        log.append(&source(0), text.as_bytes());
    }
    let (one, other) = (log.reader_from(0), log.reader_from(0));
    assert_eq!([one.lost, other.lost], [2, 2]);
    assert_eq!([all(&one), all(&other)], ["cde", "cde"]);
    log.append(&source(1), b"f");
    assert_eq!([all(&one), all(&other)], ["f", "f"]);
}

#[test]
fn a_writer_waits_for_a_reader_and_loses_nothing() {
    let log = OutputLog::new(2 * (OVERHEAD + 1));
    let reader = log.reader_from(0);
    let writer = Arc::clone(&log);
    let thread = std::thread::spawn(move || {
        for number in 0..100u8 {
            writer.append(&source(0), &[number]);
        }
        writer.close();
    });
    let parts = std::iter::from_fn(|| reader.next_part(OutputWait::ToTheEnd));
    let got: Vec<u8> = parts.flat_map(|it| it.bytes.to_vec()).collect();
    assert_eq!(got, (0..100).collect::<Vec<u8>>());
    thread.join().unwrap();
}

#[test]
fn a_writer_that_waits_goes_on_when_what_is_new_is_discarded() {
    let log = OutputLog::new(OVERHEAD + 1);
    let reader = log.reader_from(0);
    log.append(&source(0), b"a");
    let writer = Arc::clone(&log);
    let thread = std::thread::spawn(move || writer.append(&source(0), b"bc"));
    while log.added().1 == 0 {
        std::thread::yield_now();
    }
    log.discard_new();
    thread.join().unwrap();
    assert_eq!((all(&reader), log.added()), ("a".to_owned(), (3, 0)));
    assert_eq!(log.reader_from(0).lost, 2);
}

#[test]
fn a_writer_does_not_wait_for_a_reader_that_has_gone() {
    let log = OutputLog::new(OVERHEAD + 1);
    let reader = log.reader_from(0);
    log.append(&source(0), b"a");
    let writer = Arc::clone(&log);
    let thread = std::thread::spawn(move || writer.append(&source(0), b"b"));
    drop(reader);
    thread.join().unwrap();
    assert_eq!((log.readers().0, all(&log.reader_from(0))), (0, "b".to_owned()));
}

#[test]
fn the_program_that_serves_readers_does_not_wait_for_them() {
    let log = OutputLog::new(OVERHEAD + 1);
    let reader = log.reader_from(0);
    for text in ["a", "b", "c"] {
        let _kept = log.append_at_once(&source(0), text.as_bytes());
    }
    assert_eq!(all(&reader), "ab");
    assert_eq!(log.reader_from(0).lost, 1);
}

#[test]
fn a_reader_that_waits_is_ended_by_another_thread() {
    let log = OutputLog::new(1000);
    let reader = log.reader_from(0);
    let end = reader.end();
    let thread = std::thread::spawn(move || reader.next_part(OutputWait::ToTheEnd));
    end.end();
    assert_eq!(thread.join().unwrap(), None);
}

#[test]
fn a_part_above_the_limit_is_kept_alone() {
    let log = OutputLog::new(4);
    log.append(&source(0), b"0123456789");
    log.append(&source(0), b"abcdefghij");
    let reader = log.reader_from(0);
    assert_eq!((reader.lost, all(&reader)), (10, "abcdefghij".to_owned()));
}

#[test]
fn a_reader_begins_at_its_position_also_within_a_part() {
    let log = OutputLog::new(2 * (OVERHEAD + 3));
    for text in ["abc", "def", "ghi"] {
        log.append(&source(0), text.as_bytes());
    }
    let from = |position| {
        let reader = log.reader_from(position);
        let parts = std::iter::from_fn(|| reader.next_part(OutputWait::No));
        let parts: Vec<OutputPart> = parts.collect();
        let text = parts.iter().flat_map(|it| it.bytes.to_vec()).collect();
        (reader.lost, parts.last().map(OutputPart::end), String::from_utf8(text).unwrap())
    };
    assert_eq!(from(1), (2, Some(9), "defghi".to_owned()));
    assert_eq!(from(4), (0, Some(9), "efghi".to_owned()));
    assert_eq!(from(6), (0, Some(9), "ghi".to_owned()));
    assert_eq!(from(9), (0, None, String::new()));
    assert_eq!(from(20), (0, None, String::new()));
}

#[test]
fn a_log_goes_on_where_another_one_was_lost() {
    let log = OutputLog::continued(1000, 7);
    log.append(&source(0), b"abc");
    let from = |position| {
        let reader = log.reader_from(position);
        (reader.lost, all(&reader))
    };
    assert_eq!(from(0), (7, "abc".to_owned()));
    assert_eq!(from(5), (2, "abc".to_owned()));
    assert_eq!(from(8), (0, "bc".to_owned()));
    assert_eq!(log.added(), (10, 0));
}

#[test]
fn a_reader_waits_until_its_time() {
    let log = OutputLog::new(1000);
    let reader = log.reader_from(0);
    assert_eq!(reader.next_part(OutputWait::Until(Instant::now())), None);
}
