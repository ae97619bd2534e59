//! The files over 9P for a time: random flushes of reads and writes of a session, and more
//! connections and fids than there may be.
//!
//! In: a seed, and how many rounds and connections. Out: figures beside their limits.
//! `cargo xtask soak files` runs many, the tests a few.

use super::random::{Random, given};
use crate::deadline::until;
use crate::listener::files::{Raw, own, path, read};
use crate::listener::files_session::{script, served, write};
use crate::root::privilege::{able, as_uid};
use crate::served::Served;
use monitor_ninep::Request;
use std::time::Instant;

/// Seed, rounds and connections, unless `MONITOR_SOAK_SEED`, `MONITOR_SOAK_ROUNDS` and
/// `MONITOR_SOAK_CONNECTIONS` are set.
const SEED: u64 = 23;
const ROUNDS: u64 = 2;
const CONNECTIONS: u64 = 5;
/// Requests of a round.
const STEPS: usize = 200;
/// The first of the users that connect, and how many connections each has: the limit.
const FIRST_UID: u32 = 61_300;
const OF_USER: u64 = 64;
/// Fids that each connection asks for, with that of its attach.
const FIDS: u32 = 4097;
/// Fids that a connection may have.
const MAX_FIDS: u32 = 4096;
/// Those of all connections of a user, and of all users except root.
const FIDS_OF_USER: u64 = 16_384;
const FIDS_OF_ALL: u64 = 131_072;
/// Those of each connection that do not count among these.
const UNCOUNTED_FIDS: u64 = 64;
/// Memory of a fid and of a connection, with room for a build without optimization.
const FID_BYTES: u64 = 400;
const CONNECTION_BYTES: u64 = 128 << 10;

/// Flushes the request with tag 1, and returns its content if that comes before Rflush.
fn flushed(raw: &mut Raw) -> Option<String> {
    raw.send(2, &Request::Flush { old: 1 });
    let first = raw.reply_or_content();
    if first == Err("flush".to_owned()) {
        return None;
    }
    // The type of Rerror.
    assert_ne!(first, Err("107".to_owned()));
    assert_eq!(raw.reply(), "flush");
    Some(first.unwrap_or_default())
}

/// One reader whose reads are flushed at random, and a writer whose writes are: the reader has what
/// a later one reads at once, and each line that was acknowledged is in it once, in order.
fn flush_round(random: &mut Random, served: &Served) -> (usize, usize) {
    let uid = format!("#{}", rustix::process::geteuid().as_raw());
    let mut it = own(served);
    let at = script(&mut it, "cat");
    let (mut reader, mut writer) = (Raw::attached_as(served, &uid), Raw::attached_as(served, &uid));
    reader.open(1, &format!("{at}/stdout"), 0);
    writer.open(1, &format!("{at}/stdin"), 1);
    let (mut seen, mut acknowledged, mut n_flushed) = (String::new(), Vec::new(), 0);
    for step in 0..STEPS {
        let line = format!("line {step}\n");
        let request = Request::Write { fid: 1, offset: 0, content: line.as_bytes() };
        let ask = Request::Read { fid: 1, offset: seen.len() as u64, count: 100 };
        let before = random.one_in(3);
        if before {
            reader.send(1, &ask);
        }
        writer.send(1, &request);
        if random.one_in(4) {
            n_flushed += 1;
            if flushed(&mut writer).is_some() {
                acknowledged.push(line);
            }
        } else {
            let reply = writer.reply();
            assert!(!reply.starts_with("error"), "{reply}");
            acknowledged.push(line);
        }
        if before {
            n_flushed += 1;
            seen.push_str(&flushed(&mut reader).unwrap_or_default());
        } else if random.one_in(2) {
            // What is there may have been read already.
            reader.send(1, &ask);
            seen.push_str(&flushed(&mut reader).unwrap_or_default());
        }
    }
    write(&mut it, &format!("{at}/ctl"), "close stdin\n");
    loop {
        let part = reader.read(1, seen.len() as u64);
        if part.is_empty() {
            break;
        }
        seen.push_str(&part);
    }
    assert_eq!(seen, read(&mut it, &format!("{at}/stdout")));
    let mut lines = seen.split_inclusive('\n');
    for line in &acknowledged {
        assert!(lines.any(|it| it == line), "{line:?} is missing: {seen}");
    }
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    (n_flushed, acknowledged.len())
}

#[test]
fn no_flush_at_any_time_loses_or_repeats_a_byte() {
    let seed = given("MONITOR_SOAK_SEED").unwrap_or(SEED);
    let rounds = given("MONITOR_SOAK_ROUNDS").unwrap_or(ROUNDS);
    println!("seed {seed}, {rounds} rounds");
    let (mut random, served) = (Random(seed), served());
    let (began, mut n_flushed, mut n_lines) = (Instant::now(), 0, 0);
    for _ in 0..rounds {
        let (flushed, lines) = flush_round(&mut random, &served);
        n_flushed += flushed;
        n_lines += lines;
    }
    let took = began.elapsed();
    println!("soak: {n_flushed} flushes, {n_lines} lines in {took:.1?}: none lost, none repeated");
}

/// Connections of a user, each of which asks for more fids than it may have; how many it has got,
/// and how many were refused by name.
fn ask_for_fids(served: &Served, uid: u32, connections: u64) -> (Vec<Raw>, FidCounts) {
    as_uid(uid, &[], || {
        let mut all: Vec<Raw> =
            (0..connections).map(|_| Raw::connected(&path(served), "")).collect();
        // That of its attach.
        let mut counts = FidCounts { made: connections, refused: 0 };
        for raw in &mut all {
            for first in (1..FIDS).step_by(64) {
                let fids = first..FIDS.min(first + 64);
                for new in fids.clone() {
                    raw.send(7, &Request::Walk { fid: 0, new, names: vec![] });
                }
                for _ in fids {
                    match raw.reply().as_str() {
                        RWALK => counts.made += 1,
                        "error Too many open files" => counts.refused += 1,
                        other => panic!("{other}"),
                    }
                }
            }
        }
        (all, counts)
    })
}

/// A reply of this type, as it is shown.
const RWALK: &str = "111";

/// What became of fids that were asked for.
#[derive(Default)]
struct FidCounts {
    made: u64,
    refused: u64,
}

#[test]
fn root_more_connections_and_fids_than_there_may_be_are_refused_by_name() {
    const TEST: &str = "root_more_connections_and_fids_than_there_may_be_are_refused_by_name";
    if !able(TEST) {
        return;
    }
    let connections = given("MONITOR_SOAK_CONNECTIONS").unwrap_or(CONNECTIONS);
    let served = Served::with("[limits]\nprocessor = \"100%\"\n");
    let mut other = own(&served);
    let before = served.allocated_bytes();
    let (began, mut held) = (Instant::now(), Vec::new());
    let (mut all, mut counted) = (FidCounts::default(), 0);
    for (user, first) in (0..).zip((0..connections).step_by(OF_USER as usize)) {
        let count = OF_USER.min(connections - first);
        let (connected, counts) = ask_for_fids(&served, FIRST_UID + user, count);
        let room = FIDS_OF_USER.min(FIDS_OF_ALL - counted);
        let most = (count * UNCOUNTED_FIDS + room).min(count * u64::from(MAX_FIDS));
        assert_eq!(counts.made, most, "user {user}, with room for {room}");
        held.extend(connected);
        counted += most.saturating_sub(count * UNCOUNTED_FIDS);
        all.made += counts.made;
        all.refused += counts.refused;
    }
    let took = began.elapsed();
    assert_eq!(all.made + all.refused, connections * u64::from(FIDS));
    let bytes = served.allocated_bytes().saturating_sub(before);
    println!(
        "soak: {connections} connections ask for {FIDS} fids each in {took:.1?}: {} are made, {} \
         refused by name; the service has grown by {} KiB, {} bytes a fid",
        all.made,
        all.refused,
        bytes >> 10,
        bytes / all.made,
    );
    let bound = all.made * FID_BYTES + connections * CONNECTION_BYTES;
    assert!(bytes < bound, "{bytes} bytes, expected less than {bound}");
    // Others are served, and all of it is counted and given back.
    assert!(read(&mut other, "arch").starts_with("/Linux/"));
    drop(held);
    let n_counted = || served.status()["refused"]["9P Too many open files"].as_u64();
    until(|| (n_counted() == Some(all.refused)).then_some(()));
    let (_again, counts) = ask_for_fids(&served, FIRST_UID, 1);
    assert_eq!(counts.made, u64::from(MAX_FIDS));
}
