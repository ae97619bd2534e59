//! The bytes of each message, written by hand from section 5 of the Plan 9 manual.

use crate::frame::FrameBuffer;
use crate::stat::{DIRECTORY, Qid, Stat};
use crate::{Malformed, NO_FID, NO_TAG, Reply, Request};

/// Hexadecimal digits, with blanks and quoted text between them.
fn bytes(written: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, part) in written.split('\'').enumerate() {
        if at % 2 == 1 {
            out.extend(part.bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|it| it.to_digit(16)).collect();
        out.extend(digits.chunks(2).map(|it| (it[0] << 4 | it[1]) as u8));
    }
    out
}

#[track_caller]
fn frame(written: &str) -> (Vec<u8>, crate::frame::Frame) {
    let whole = bytes(written);
    let mut frames = FrameBuffer::default();
    frames.extend(&whole);
    let frame = frames.next(u32::MAX).unwrap().unwrap();
    assert!(frames.is_empty());
    (whole, frame)
}

#[track_caller]
fn request(tag: u16, request: &Request<'_>, written: &str) {
    let (whole, frame) = frame(written);
    let mut out = Vec::new();
    request.put(tag, &mut out);
    assert_eq!(out, whole);
    assert_eq!(frame.tag, tag);
    assert_eq!(&Request::decode(frame.kind, &frame.body).unwrap(), request);
    every_cut_is_malformed(&frame.body, |body| Request::decode(frame.kind, body).map(drop));
}

#[track_caller]
fn reply(tag: u16, reply: &Reply<'_>, written: &str) {
    let (whole, frame) = frame(written);
    let mut out = Vec::new();
    reply.put(tag, &mut out);
    assert_eq!(out, whole);
    assert_eq!(frame.tag, tag);
    assert_eq!(&Reply::decode(frame.kind, &frame.body).unwrap(), reply);
    every_cut_is_malformed(&frame.body, |body| Reply::decode(frame.kind, body).map(drop));
}

#[track_caller]
fn every_cut_is_malformed(body: &[u8], decode: impl Fn(&[u8]) -> Result<(), Malformed>) {
    for length in 0..body.len() {
        assert!(decode(&body[..length]).is_err(), "cut at {length}");
    }
    let longer = [body, b"\0"].concat();
    assert_eq!(decode(&longer), Err(Malformed::Long(1)));
}

fn qid() -> Qid {
    Qid { kind: 0x80, version: 2, path: 0x0102_0304_0506_0708 }
}

fn stat() -> Stat {
    Stat {
        kind: 1,
        device: 2,
        qid: qid(),
        mode: DIRECTORY | 0o555,
        accessed_s: 3,
        modified_s: 4,
        length: 5,
        name: "mon".into(),
        user: "root".into(),
        group: "adm".into(),
        modifier: String::new(),
    }
}

const STAT: &str = "3900 0100 02000000 80 02000000 0807060504030201 6d010080 03000000 04000000 \
                    0500000000000000 0300'mon' 0400'root' 0300'adm' 0000";

#[test]
fn version_and_auth() {
    let it = Request::Version { msize: 8192, version: "9P2000" };
    request(NO_TAG, &it, "13000000 64 ffff 00200000 0600'9P2000'");
    let it = Reply::Version { msize: 8192, version: "9P2000" };
    reply(NO_TAG, &it, "13000000 65 ffff 00200000 0600'9P2000'");
    let it = Request::Auth { afid: 7, user: "alice", tree: "" };
    request(1, &it, "14000000 66 0100 07000000 0500'alice' 0000");
    reply(1, &Reply::Auth { qid: qid() }, "14000000 67 0100 80 02000000 0807060504030201");
}

#[test]
fn attach_error_and_flush() {
    let it = Request::Attach { fid: 0, afid: NO_FID, user: "alice", tree: "x" };
    request(2, &it, "19000000 68 0200 00000000 ffffffff 0500'alice' 0100'x'");
    reply(2, &Reply::Attach { qid: qid() }, "14000000 69 0200 80 02000000 0807060504030201");
    reply(3, &Reply::Error { text: "no" }, "0b000000 6b 0300 0200'no'");
    request(4, &Request::Flush { old: 0x0102 }, "09000000 6c 0400 0201");
    reply(4, &Reply::Flush, "07000000 6d 0400");
}

#[test]
fn walk_open_and_create() {
    let it = Request::Walk { fid: 1, new: 2, names: vec!["mon", ".."] };
    request(5, &it, "1a000000 6e 0500 01000000 02000000 0200 0300'mon' 0200'..'");
    let it = Reply::Walk { qids: vec![qid(); 2] };
    let one = "80 02000000 0807060504030201";
    reply(5, &it, &format!("23000000 6f 0500 0200 {one} {one}"));
    reply(5, &Reply::Walk { qids: vec![] }, "09000000 6f 0500 0000");
    request(6, &Request::Open { fid: 2, mode: 0x12 }, "0c000000 70 0600 02000000 12");
    let it = Reply::Open { qid: qid(), iounit: 9 };
    reply(6, &it, &format!("18000000 71 0600 {one} 09000000"));
    let it = Request::Create { fid: 2, name: "f", permissions: 0o644, mode: 1 };
    request(7, &it, "13000000 72 0700 02000000 0100'f' a4010000 01");
    let it = Reply::Create { qid: qid(), iounit: 9 };
    reply(7, &it, &format!("18000000 73 0700 {one} 09000000"));
}

#[test]
fn read_and_write() {
    let it = Request::Read { fid: 2, offset: 0x0102_0304_0506, count: 512 };
    request(8, &it, "17000000 74 0800 02000000 0605040302010000 00020000");
    reply(8, &Reply::Read { content: b"abc" }, "0e000000 75 0800 03000000 'abc'");
    let it = Request::Write { fid: 2, offset: 1, content: b"abc" };
    request(9, &it, "1a000000 76 0900 02000000 0100000000000000 03000000 'abc'");
    reply(9, &Reply::Write { count: 3 }, "0b000000 77 0900 03000000");
}

#[test]
fn clunk_remove_and_stat() {
    request(1, &Request::Clunk { fid: 2 }, "0b000000 78 0100 02000000");
    reply(1, &Reply::Clunk, "07000000 79 0100");
    request(1, &Request::Remove { fid: 2 }, "0b000000 7a 0100 02000000");
    reply(1, &Reply::Remove, "07000000 7b 0100");
    request(1, &Request::Stat { fid: 2 }, "0b000000 7c 0100 02000000");
    let it = Reply::Stat { stat: Box::new(stat()) };
    reply(1, &it, &format!("44000000 7d 0100 3b00 {STAT}"));
    let it = Request::WriteStat { fid: 2, stat: Box::new(stat()) };
    request(1, &it, &format!("48000000 7e 0100 02000000 3b00 {STAT}"));
    reply(1, &Reply::WriteStat, "07000000 7f 0100");
}

#[test]
fn lengths_are_checked_before_anything_is_kept() {
    let names = bytes("01000000 02000000 1100");
    assert_eq!(Request::decode(110, &names), Err(Malformed::Names(17)));
    let content = bytes("02000000 0100000000000000 ffffffff 'abc'");
    assert_eq!(Request::decode(118, &content), Err(Malformed::Short("data")));
    let text = bytes("00200000 0200 ff fe");
    assert_eq!(Request::decode(100, &text), Err(Malformed::Text("version")));
    let text = bytes("00200000 0200 'a' 00");
    assert_eq!(Request::decode(100, &text), Err(Malformed::Text("version")));
    assert_eq!(Request::decode(106, b""), Err(Malformed::Type(106)));
    let mut stat = bytes(&format!("02000000 3b00 {STAT}"));
    stat[6] += 1;
    assert_eq!(Request::decode(126, &stat), Err(Malformed::Short("stat")));
    stat[6] -= 2;
    assert!(Request::decode(126, &stat).is_err());
}

#[test]
fn a_size_that_no_message_has_is_refused_before_its_bytes_arrive() {
    for size in [0, 6, 8193, u32::MAX] {
        let mut frames = FrameBuffer::default();
        frames.extend(&size.to_le_bytes());
        assert_eq!(frames.next(8192).unwrap_err().size, size);
    }
    let mut frames = FrameBuffer::default();
    frames.extend(&8192_u32.to_le_bytes());
    assert_eq!(frames.next(8192), Ok(None));
    assert_eq!(frames.len(), 4);
}
