//! Random messages and random cuts: no panic, bounded memory, and the tree stays whole.

#![allow(clippy::print_stdout, reason = "figures of a soak are shown with --nocapture")]

use super::world::{NAMES, TestClient, World};
use crate::frame::FrameBuffer;
use crate::limits::{Limits, OUTPUT_BYTES};
use crate::stat::Stat;
use crate::{NO_FID, NO_TAG, Request};
use std::sync::{Arc, Mutex};

/// Messages of one run of the tests; 10^7 of them take two minutes: `MONITOR_NINEP_MESSAGES`.
const MESSAGES: u64 = 200_000;
/// Sessions that are cut at random: `MONITOR_NINEP_CUTS`.
const CUTS: u64 = 2_000;

/// A number in the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|it| it.parse().ok())
}

/// Numbers that depend on a seed alone (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<X: Copy>(&mut self, from: &[X]) -> X {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A request that is valid in form, with few fids and tags, so that they meet.
fn put_request(random: &mut Random, out: &mut Vec<u8>) {
    let fid = random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, NO_FID]);
    let tag = random.pick(&[1, 2, 3, 4, 5, 6, NO_TAG]);
    let offset = random.pick(&[0, 1, 5, u64::MAX]);
    let mode = random.pick(&[0, 0, 0, 1, 2, 3, 0x10, 0x11, 0x40]);
    let name = random.pick(&["text", "queue", "sink", "slow", "sub", "..", ".", "", "a/b"]);
    let user = random.pick(&["root", "alice", "bob", "", "x"]);
    let count = random.below(18);
    let names: Vec<&str> = (0..count).map(|_| random.pick(&NAMES)).collect();
    let request = match random.below(16) {
        0 if random.below(50) == 0 => Request::Version { msize: 8192, version: "9P2000.u" },
        0 | 1 => Request::Attach { fid, afid: NO_FID, user, tree: "" },
        2 => Request::Flush { old: random.pick(&[1, 2, 3, 4, 5, 6]) },
        3 => Request::Walk { fid, new: random.below(9) as u32, names },
        4..=6 => Request::Walk { fid: 0, new: random.below(9) as u32, names: vec![name] },
        7 | 8 => Request::Open { fid, mode },
        9 => Request::Create { fid, name, permissions: 0o644, mode },
        10 | 11 => Request::Read { fid, offset, count: random.below(9000) as u32 },
        12 => Request::Write { fid, offset, content: &[7; 300][..random.below(300) as usize] },
        13 => Request::Clunk { fid },
        14 => Request::Stat { fid },
        _ if random.below(4) == 0 => Request::Remove { fid },
        _ => Request::WriteStat {
            fid,
            stat: Box::new(Stat { length: random.pick(&[0, 1, u64::MAX]), ..Stat::unchanged() }),
        },
    };
    request.put(tag, out);
}

/// Damages a message; its size field stays right, so that the stream goes on.
fn damage(random: &mut Random, message: &mut Vec<u8>) {
    match random.below(8) {
        0 => {
            let at = 4 + random.below(message.len() as u64 - 4) as usize;
            message[at] = random.next() as u8;
        }
        1 => {
            message.truncate(7 + random.below(message.len() as u64 - 6) as usize);
        }
        2 => message.extend((0..random.below(20)).map(|it| it as u8)),
        _ => {}
    }
    let size = (message.len() as u32).to_le_bytes();
    message[..4].copy_from_slice(&size);
}

/// What happens in the world between messages.
fn stir(random: &mut Random, world: &Mutex<World>) {
    let mut world = world.lock().unwrap();
    match random.below(8) {
        0 => world.queue.extend([b'q'; 100]),
        1 => world.room += 50,
        2 => world.open = !world.open,
        3 => world.wake(),
        _ => {}
    }
    world.sink.clear();
    world.errors.clear();
    world.abandoned.clear();
}

fn start(world: &Arc<Mutex<World>>) -> TestClient {
    TestClient::with_limits("alice", Limits { fids: 8, tags: 5, ..Limits::default() }, world)
}

#[test]
fn random_messages_never_panic_and_memory_is_bounded() {
    let count = given("MONITOR_NINEP_MESSAGES").unwrap_or(MESSAGES);
    let mut random = Random(9);
    let world = Arc::default();
    let (mut it, mut other) = (start(&world), start(&world));
    let (mut replies, mut closed) = (0, 0);
    for _ in 0..count {
        let mut message = Vec::new();
        put_request(&mut random, &mut message);
        damage(&mut random, &mut message);
        let mut frames = FrameBuffer::default();
        frames.extend(&message);
        let frame = frames.next(u32::MAX).unwrap().unwrap();
        if it.connection.receive(&frame).is_err() {
            closed += 1;
            it = start(&world);
        }
        stir(&mut random, &world);
        assert!(it.connection.fids() <= 8 && it.connection.waiting() <= 5);
        assert!(it.connection.output().len() < OUTPUT_BYTES + 8192);
        // Every reply decodes.
        replies += it.replies().len();
        if random.below(1000) == 0 {
            let stat = other.ask(1, &Request::Stat { fid: 0 });
            assert_eq!(stat, "1 stat / 20000000555 bob");
        }
    }
    println!("soak: {count} messages: {replies} replies, {closed} connections closed, no panic");
    assert!(replies > 1000 && closed > 10, "{replies} replies, {closed} connections closed");
}

#[test]
fn random_bytes_as_bodies_never_panic() {
    let mut random = Random(11);
    for _ in 0..100_000 {
        let body: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
        let _ = Request::decode(random.next() as u8, &body);
        let _ = crate::Reply::decode(random.next() as u8, &body);
        let _ = Stat::entries(&body);
    }
}

#[test]
fn a_session_cut_anywhere_gives_the_same_replies() {
    let mut random = Random(13);
    let mut session = Vec::new();
    let version = Request::Version { msize: 8192, version: "9P2000" };
    version.put(NO_TAG, &mut session);
    for _ in 0..200 {
        put_request(&mut random, &mut session);
    }
    let whole = replay(&session, std::iter::once(session.len()));
    assert!(whole.len() > 1000);
    let count = given("MONITOR_NINEP_CUTS").unwrap_or(CUTS);
    for _ in 0..count {
        let cuts: Vec<usize> = (0..3).map(|_| random.below(300) as usize).collect();
        let cut = replay(&session, cuts.iter().cycle().map(|it| 1 + it).take(session.len()));
        assert_eq!(cut, whole);
    }
    println!("soak: {count} sessions cut at random: the same replies");
}

/// The replies to a session that arrives in pieces of these lengths.
fn replay(session: &[u8], pieces: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut it = TestClient::bare(Limits::default(), &Arc::default());
    let (mut frames, mut rest, mut out) = (FrameBuffer::default(), session, Vec::new());
    for length in pieces {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        frames.extend(piece);
        while let Some(frame) = frames.next(it.connection.message_bytes()).unwrap() {
            it.connection.receive(&frame).unwrap();
            out.append(it.connection.output());
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    assert!(rest.is_empty() && frames.is_empty());
    out
}
