//! `mon/push`: samples at the rate and with the filter of each open, and what a slow reader and a
//! flush lose.

use super::files::{Raw, own, read};
use super::files_session::{refused, script, write};
use crate::served::{Served, monitor};
use monitor_ninep::Request;
use std::time::{Duration, Instant};

const PUSH: &str = "mon/push";
/// Read and write.
const BOTH: u8 = 2;

fn raw(served: &Served) -> Raw {
    Raw::attached_as(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

fn filter(raw: &mut Raw, fid: u32, text: &str) {
    raw.ask(&Request::Write { fid, offset: 0, content: text.as_bytes() });
}

/// The number of a sample, or of lost ones.
fn number(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(&format!("({name} "))?;
    rest.split_once(')')?.0.parse().ok()
}

#[test]
fn samples_come_at_the_rate_and_with_the_categories_of_the_open() {
    let served = Served::with("");
    let mut it = raw(&served);
    it.open(1, PUSH, BOTH);
    it.open(2, PUSH, BOTH);
    filter(&mut it, 1, "(filter (cat cpu) (every 50))\n");
    filter(&mut it, 2, "(filter (cat node) (every 3600000))");
    let began = Instant::now();
    for want in 1..=5 {
        let line = it.read(1, 0);
        assert!(line.starts_with("(sample (node ") && line.contains(" (cpu ("), "{line}");
        assert!(!line.contains("uptime_ns") && line.lines().count() == 1, "{line}");
        assert_eq!(number(&line, "seq"), Some(want));
    }
    assert!(began.elapsed() >= Duration::from_millis(4 * 50 - 20));
    let line = it.read(2, 99);
    assert!(line.contains(" (node (") && !line.contains(" (cpu"), "{line}");
    // A new filter takes effect while a read waits; what does not pass is not written.
    it.send(1, &Request::Read { fid: 2, offset: 0, count: 8000 });
    it.send(2, &Request::Write { fid: 2, offset: 0, content: b"(filter (every 20))" });
    let replies = [it.reply(), it.reply()];
    assert_eq!(replies.iter().filter(|it| **it == "read").count(), 1, "{replies:?}");
    filter(&mut it, 1, "(filter (> node.uptime_ns 1e30) (every 10))");
    // What was queued before the filter may follow once.
    let waits = |it: &mut Raw| {
        it.send(3, &Request::Read { fid: 1, offset: 0, count: 8000 });
        it.send(4, &Request::Flush { old: 3 });
        let is_flushed = it.reply_or_content().is_err();
        is_flushed || it.reply() != "flush"
    };
    assert!(waits(&mut it) || waits(&mut it));
}

#[test]
fn what_is_no_filter_is_refused_and_changes_nothing() {
    let served = Served::with("");
    let mut it = own(&served);
    assert_eq!(refused(&mut it, PUSH, "(filter (cat gpu))"), "Invalid argument");
    assert_eq!(read(&mut it, "err"), "filter: \"gpu\" is no category of mon/desc\n");
    assert_eq!(refused(&mut it, PUSH, &"(".repeat(5000)), "File too large");
    it.open_to_write(PUSH).unwrap();
    it.write_on(b"(filter)").unwrap();
    it.close().unwrap();
    // The first sample is there at once.
    let mut first = String::new();
    it.read_while(PUSH, |bytes| {
        first.push_str(std::str::from_utf8(bytes).unwrap());
        false
    })
    .unwrap();
    assert!(first.contains("(seq 1)") && first.contains(" (net"), "{first}");
}

#[test]
fn a_slow_reader_loses_counted_samples_and_holds_up_no_other() {
    let served = Served::with("");
    let (mut slow, mut quick) = (raw(&served), raw(&served));
    for it in [&mut slow, &mut quick] {
        it.open(1, PUSH, BOTH);
        filter(it, 1, "(filter (cat node) (every 10))");
        assert_eq!(number(&it.read(1, 0), "seq"), Some(1));
    }
    let mut last = 1;
    while last < 100 {
        for line in quick.read(1, 0).lines() {
            assert_eq!(number(line, "lost"), None, "{line}");
            assert_eq!(number(line, "seq"), Some(last + 1));
            last += 1;
        }
    }
    // All that were kept, and those before them as a number.
    let text = slow.read(1, 0);
    let lost = number(text.lines().next().unwrap(), "lost").expect("lost samples");
    assert!(lost >= 30, "{lost}");
    let next = text.lines().nth(1).and_then(|it| number(it, "seq"));
    assert_eq!(next, Some(1 + lost + 1), "{text}");
}

#[test]
fn a_flushed_read_of_samples_loses_none() {
    let served = Served::with("");
    let mut it = raw(&served);
    it.open(1, PUSH, BOTH);
    filter(&mut it, 1, "(filter (cat node) (every 20))");
    let mut last = 0;
    let mut check = |text: &str| {
        for line in text.lines() {
            assert_eq!(number(line, "seq"), Some(last + 1), "{text}");
            last += 1;
        }
        last
    };
    while check(&it.read(1, 0)) < 20 {
        it.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
        it.send(2, &Request::Flush { old: 1 });
        if let Ok(text) = it.reply_or_content() {
            check(&text);
            assert_eq!(it.reply(), "flush");
        }
    }
}

#[test]
fn samples_of_a_session_are_pushed_and_end_with_it() {
    let uid = rustix::process::geteuid().as_raw();
    let served = Served::started(&format!("[files]\nexecute = [{uid}]\n"), monitor(), "procfs");
    let mut it = own(&served);
    let at = script(&mut it, "sleep 98745");
    let mut reader = raw(&served);
    reader.open(1, &format!("{at}/mon/push"), BOTH);
    filter(&mut reader, 1, "(filter (> proc.rss_bytes 0) (every 50))");
    let line = reader.read(1, 0);
    assert!(line.contains(&format!(" (session {at}) ")) && line.contains("(comm "), "{line}");
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    // Without processes no sample passes.
    while !reader.read(1, 0).is_empty() {}
}
