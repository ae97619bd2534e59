//! The rules of a connection, one test each.

use super::world::{TestClient, TestTree};
use crate::error::Errno;
use crate::limits::Limits;
use crate::stat::Stat;
use crate::{Connection, FidQuota, NO_FID, NO_TAG, Request};
use std::sync::Arc;

const READ: u8 = 0;
const WRITE: u8 = 1;

fn walk<'a>(fid: u32, new: u32, names: &[&'a str]) -> Request<'a> {
    Request::Walk { fid, new, names: names.to_vec() }
}

fn read(fid: u32, offset: u64, count: u32) -> Request<'static> {
    Request::Read { fid, offset, count }
}

fn version(msize: u32, version: &str) -> Request<'_> {
    Request::Version { msize, version }
}

fn attach(fid: u32, user: &str) -> Request<'_> {
    Request::Attach { fid, afid: NO_FID, user, tree: "" }
}

#[test]
fn variants_of_the_version_are_answered_with_their_common_part() {
    let mut it = TestClient::bare(Limits::default(), &Arc::default());
    assert_eq!(it.ask(NO_TAG, &version(8216, "9P2000.L")), "65535 version 8216 9P2000");
    assert_eq!(it.ask(NO_TAG, &version(8216, "9P2000.u")), "65535 version 8216 9P2000");
    assert_eq!(it.ask(NO_TAG, &version(8216, "9P1")), "65535 version 8216 unknown");
    assert_eq!(it.ask(1, &attach(0, "")), "1 error Protocol error");
}

#[test]
fn the_largest_message_is_negotiated_down_and_a_tiny_one_is_refused() {
    let mut it = TestClient::bare(Limits::default(), &Arc::default());
    assert_eq!(it.ask(NO_TAG, &version(u32::MAX, "9P2000")), "65535 version 65536 9P2000");
    assert_eq!(it.connection.message_bytes(), 65536);
    assert_eq!(it.ask(NO_TAG, &version(4095, "9P2000")), "65535 error Invalid argument");
    assert_eq!(it.ask(NO_TAG, &version(4096, "9P2000")), "65535 version 4096 9P2000");
}

#[test]
fn nothing_is_served_before_the_version() {
    let mut it = TestClient::bare(Limits::default(), &Arc::default());
    assert_eq!(it.ask(1, &attach(0, "")), "1 error Protocol error");
    assert!(!it.connection.is_attached());
}

#[test]
fn a_new_version_ends_all_fids_and_requests() {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "queue", READ), "8 open 2");
    assert_eq!(it.ask(9, &read(1, 0, 10)), "");
    assert_eq!((it.connection.fids(), it.connection.waiting()), (2, 1));
    assert_eq!(it.ask(NO_TAG, &version(8192, "9P2000")), "65535 version 8192 9P2000");
    assert_eq!((it.connection.fids(), it.connection.waiting()), (0, 0));
    let world = Arc::clone(&it.world);
    world.lock().unwrap().queue.extend(b"kept");
    world.lock().unwrap().wake();
    assert_eq!(it.replies(), [""; 0]);
    assert_eq!(world.lock().unwrap().queue.len(), 4);
}

#[test]
fn any_number_of_attaches_and_each_has_its_user() {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.ask(1, &attach(1, "bob")), "1 attach");
    assert_eq!(it.ask(1, &attach(1, "bob")), "1 error fid already in use");
    assert_eq!(it.ask(1, &attach(2, "carol")), "1 error unknown user");
    assert_eq!(it.ask(1, &walk(1, 3, &["sub", "leaf"])), "1 walk 2");
    // A directory of mode 500 that bob owns: alice walks to it, and no further.
    assert_eq!(it.ask(1, &walk(0, 4, &["sub", "leaf"])), "1 walk 1");
    assert_eq!(it.ask(1, &Request::Clunk { fid: 4 }), "1 error fid unknown or out of range");
}

#[test]
fn authentication_is_not_required() {
    let mut it = TestClient::attached("alice");
    let auth = Request::Auth { afid: 7, user: "alice", tree: "" };
    assert_eq!(it.ask(1, &auth), "1 error authentication not required");
    let attach = Request::Attach { fid: 1, afid: 7, user: "alice", tree: "" };
    assert_eq!(it.ask(1, &attach), "1 error bad use of fid");
}

#[test]
fn a_walk_that_fails_later_makes_no_fid_and_one_that_fails_first_fails() {
    let mut it = TestClient::attached("bob");
    assert_eq!(it.ask(1, &walk(0, 1, &["none"])), "1 error No such file or directory");
    assert_eq!(it.ask(1, &walk(0, 1, &["sub", "none"])), "1 walk 1");
    assert_eq!(it.ask(1, &read(1, 0, 1)), "1 error fid unknown or out of range");
    assert_eq!(it.ask(1, &walk(0, 1, &["text", "none"])), "1 walk 1");
    assert_eq!(it.ask(1, &walk(0, 1, &["sub", "leaf"])), "1 walk 2");
    assert_eq!(it.ask(1, &walk(1, 1, &["..", "sub"])), "1 error Not a directory");
    assert_eq!(it.ask(1, &walk(0, 2, &["..", "..", "text"])), "1 walk 3");
    assert_eq!(it.ask(1, &walk(0, 0, &[])), "1 walk 0");
}

#[test]
fn names_of_no_file_are_refused() {
    let mut it = TestClient::attached("alice");
    for name in ["", ".", "a/b", "/"] {
        assert_eq!(it.ask(1, &walk(0, 1, &[name])), "1 error illegal path element", "{name}");
    }
}

#[test]
fn a_fid_that_is_open_is_neither_walked_nor_opened() {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "text", READ), "8 open 1");
    assert_eq!(it.ask(1, &walk(1, 2, &[])), "1 error bad use of fid");
    assert_eq!(it.ask(1, &Request::Open { fid: 1, mode: READ }), "1 error bad use of fid");
    assert_eq!(it.ask(1, &walk(0, 1, &["sink"])), "1 error fid already in use");
    assert_eq!(it.ask(1, &walk(0, NO_FID, &[])), "1 error fid unknown or out of range");
}

#[test]
fn permission_bits_count_for_owner_group_and_others() {
    for (user, opened) in [("bob", "8 open 5"), ("alice", "8 open 5"), ("root", "8 open 5")] {
        assert_eq!(TestClient::attached(user).open(1, "secret", READ), opened, "{user}");
    }
    // alice is in its group, which may not write it.
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "secret", WRITE), "8 error Permission denied");
    assert_eq!(it.world.lock().unwrap().errors[0].explanation, "user alice may not write secret");
    assert_eq!(it.open(2, "sink", READ), "8 error Permission denied");
    assert_eq!(it.open(3, "sink", WRITE), "8 open 3");
    assert_eq!(TestClient::attached("bob").open(1, "secret", 2), "8 open 5");
}

#[test]
fn unknown_modes_are_refused_and_directories_are_only_read() {
    let mut it = TestClient::attached("root");
    assert_eq!(it.open(1, "text", 0x40), "8 error illegal mode");
    assert_eq!(it.open(2, "text", 0x80), "8 error illegal mode");
    assert_eq!(it.open(3, "sub", WRITE), "8 error Is a directory");
    assert_eq!(it.open(4, "sub", 0x10), "8 error Is a directory");
    assert_eq!(it.open(5, "sub", READ), "8 open 6");
}

#[test]
fn a_file_is_used_as_it_was_opened() {
    let mut it = TestClient::attached("root");
    it.open(1, "text", READ);
    it.open(2, "sink", WRITE);
    let write = |fid| Request::Write { fid, offset: 0, content: b"x" };
    assert_eq!(it.ask(1, &write(1)), "1 error bad use of fid");
    assert_eq!(it.ask(1, &read(2, 0, 1)), "1 error bad use of fid");
    assert_eq!(it.ask(1, &read(0, 0, 1)), "1 error bad use of fid");
    assert_eq!(it.ask(1, &read(77, 0, 1)), "1 error fid unknown or out of range");
}

#[test]
fn reads_are_from_any_offset_and_never_longer_than_a_message() {
    let mut it = TestClient::attached("alice");
    it.open(1, "text", READ);
    assert_eq!(it.ask(1, &read(1, 0, 5)), "1 read \"hello\"");
    assert_eq!(it.ask(1, &read(1, 7, u32::MAX)), "1 read \"world\\n\"");
    assert_eq!(it.ask(1, &read(1, u64::MAX, 5)), "1 read \"\"");
    it.open(2, "queue", READ);
    it.world.lock().unwrap().queue.extend([b'x'; 20_000]);
    it.send(1, &read(2, 0, u32::MAX));
    assert_eq!(it.frames()[0].body.len() + 7, 8192);
}

#[test]
fn a_directory_is_read_by_whole_entries() {
    let mut it = TestClient::attached("alice");
    it.ask(1, &walk(0, 1, &[]));
    it.ask(1, &Request::Open { fid: 1, mode: READ });
    it.send(1, &read(1, 0, 200));
    let body = it.frames().remove(0).body;
    let first = Stat::entries(&body[4..]).unwrap();
    assert_eq!(first[0].name, "text");
    assert_eq!(it.ask(1, &read(1, 1, 200)), "1 error bad offset in directory read");
    it.send(1, &read(1, body.len() as u64 - 4, 8000));
    let rest = Stat::entries(&it.frames()[0].body[4..]).unwrap();
    assert_eq!(first.len() + rest.len(), 6);
}

#[test]
fn a_blocked_read_is_answered_when_it_is_woken() {
    let mut it = TestClient::attached("alice");
    it.open(1, "queue", READ);
    assert_eq!(it.ask(5, &read(1, 0, 100)), "");
    // Other requests are served meanwhile.
    assert_eq!(it.ask(6, &Request::Stat { fid: 0 }), "6 stat / 20000000555 bob");
    it.world.lock().unwrap().queue.extend(b"now");
    assert_eq!(it.replies(), [""; 0]);
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["5 read \"now\""]);
    assert_eq!(it.connection.waiting(), 0);
}

#[test]
fn reads_of_one_fid_are_answered_in_their_order() {
    let mut it = TestClient::attached("alice");
    it.open(1, "queue", READ);
    for tag in [5, 4, 3] {
        assert_eq!(it.ask(tag, &read(1, 0, 2)), "");
    }
    it.world.lock().unwrap().queue.extend(b"abcd");
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["5 read \"ab\"", "4 read \"cd\""]);
    it.world.lock().unwrap().queue.extend(b"e");
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["3 read \"e\""]);
}

#[test]
fn writes_of_one_fid_happen_in_their_order() {
    let mut it = TestClient::attached("alice");
    it.open(1, "sink", WRITE);
    let write = |content| Request::Write { fid: 1, offset: 0, content };
    it.world.lock().unwrap().room = 2;
    assert_eq!(it.ask(5, &write(b"abc")), "");
    assert_eq!(it.ask(4, &write(b"d")), "");
    it.world.lock().unwrap().room = 100;
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["5 write 3", "4 write 1"]);
    assert_eq!(it.world.lock().unwrap().sink, b"abcd");
}

#[test]
fn an_open_that_waits_is_answered_later() {
    let mut it = TestClient::attached("alice");
    assert_eq!(it.open(1, "slow", READ), "");
    assert_eq!(it.ask(2, &read(1, 0, 1)), "2 error bad use of fid");
    assert_eq!(it.ask(2, &Request::Open { fid: 1, mode: READ }), "2 error bad use of fid");
    it.world.lock().unwrap().open = true;
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["8 open 4"]);
    assert_eq!(it.ask(2, &read(1, 0, 5)), "2 read \"hello\"");
}

#[test]
fn a_tag_that_waits_is_not_used_twice() {
    let mut it = TestClient::attached("alice");
    it.open(1, "queue", READ);
    it.ask(5, &read(1, 0, 100));
    assert_eq!(it.ask(5, &Request::Stat { fid: 0 }), "5 error Protocol error");
    it.world.lock().unwrap().queue.extend(b"x");
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), ["5 read \"x\""]);
    assert_eq!(it.ask(5, &Request::Stat { fid: 0 }), "5 stat / 20000000555 bob");
}

#[test]
fn a_clunk_fails_what_waits_on_its_fid() {
    let mut it = TestClient::attached("alice");
    it.open(1, "queue", READ);
    it.ask(5, &read(1, 0, 100));
    assert_eq!(it.ask(6, &Request::Clunk { fid: 1 }), "5 error bad use of fid; 6 clunk");
    it.world.lock().unwrap().queue.extend(b"x");
    it.world.lock().unwrap().wake();
    assert_eq!(it.replies(), [""; 0]);
}

#[test]
fn files_are_neither_created_nor_removed_unless_the_tree_does_it() {
    let mut it = TestClient::attached("root");
    it.ask(1, &walk(0, 1, &[]));
    let create = |name| Request::Create { fid: 1, name, permissions: 0o644, mode: WRITE };
    assert_eq!(it.ask(1, &create("new")), "1 error Operation not permitted");
    assert_eq!(it.ask(1, &create("..")), "1 error illegal path element");
    assert_eq!(it.ask(1, &Request::Remove { fid: 1 }), "1 error Operation not permitted");
    // The fid is forgotten nevertheless.
    assert_eq!(it.ask(1, &Request::Clunk { fid: 1 }), "1 error fid unknown or out of range");
}

#[test]
fn a_stat_that_changes_nothing_is_a_sync() {
    let mut it = TestClient::attached("root");
    it.ask(1, &walk(0, 1, &["text"]));
    let write = |stat: Stat| Request::WriteStat { fid: 1, stat: Box::new(stat) };
    assert_eq!(it.ask(1, &write(Stat::unchanged())), "1 wstat");
    // What a client took from a stat of the file is not compared.
    let qid = crate::Qid::file(99);
    assert_eq!(it.ask(1, &write(Stat { qid, ..Stat::unchanged() })), "1 wstat");
    let times = Stat { modified_s: 3, accessed_s: 4, ..Stat::unchanged() };
    assert_eq!(it.ask(1, &write(times)), "1 wstat");
    let mode = Stat { mode: 0o777, ..Stat::unchanged() };
    assert_eq!(it.ask(1, &write(mode)), "1 error Operation not permitted");
    let length = Stat { length: 5, ..Stat::unchanged() };
    assert_eq!(it.ask(1, &write(length)), "1 error Operation not permitted");
    let name = |name: &str| Stat { name: name.to_owned(), ..Stat::unchanged() };
    assert_eq!(it.ask(1, &write(name("text"))), "1 wstat");
    assert_eq!(it.ask(1, &write(name("other"))), "1 error Operation not permitted");
    assert_eq!(it.ask(1, &write(name("../x"))), "1 error illegal path element");
    let owner = Stat { user: "bob".to_owned(), ..Stat::unchanged() };
    assert_eq!(it.ask(1, &write(owner)), "1 error Operation not permitted");
}

#[test]
fn more_fids_than_the_limit_are_refused_and_counted() {
    let limits = Limits { fids: 3, ..Limits::default() };
    let mut it = TestClient::with_limits("alice", limits, &Arc::default());
    assert_eq!(it.ask(1, &walk(0, 1, &[])), "1 walk 0");
    assert_eq!(it.ask(1, &walk(0, 2, &[])), "1 walk 0");
    assert_eq!(it.ask(1, &walk(0, 3, &[])), "1 error Too many open files");
    assert_eq!(it.ask(1, &attach(3, "")), "1 error Too many open files");
    assert_eq!(it.ask(1, &walk(1, 1, &["text"])), "1 walk 1");
    assert_eq!(it.connection.take_refused()[Errno::TooManyFids.text()], 2);
    assert!(it.world.lock().unwrap().errors[0].explanation.contains("3 fids, the limit"));
}

#[test]
fn fids_of_several_connections_have_a_limit_and_are_given_back() {
    let quota = Arc::new(FidQuota::new(3, "user 7"));
    let connected = || {
        let tree = TestTree(Arc::default());
        let limits = Limits { uncounted_fids: 1, ..Limits::default() };
        let connection = Connection::with_quota(tree, limits, Arc::clone(&quota));
        TestClient::from_connection(connection, &Arc::default())
    };
    let (mut one, mut other) = (connected(), connected());
    for it in [&mut one, &mut other] {
        it.ask(NO_TAG, &Request::Version { msize: 8192, version: "9P2000" });
        assert_eq!(it.ask(1, &attach(0, "alice")), "1 attach");
        assert_eq!(it.ask(1, &walk(0, 1, &[])), "1 walk 0");
    }
    assert_eq!(one.ask(1, &walk(0, 2, &["text"])), "1 walk 1");
    for name in [&[][..], &["text"]] {
        assert_eq!(other.ask(1, &walk(0, 2, name)), "1 error Too many open files");
    }
    // It was not made, and what is there is used on.
    assert_eq!(other.ask(1, &Request::Clunk { fid: 2 }), "1 error fid unknown or out of range");
    assert_eq!(other.ask(1, &walk(1, 1, &["text"])), "1 walk 1");
    assert_eq!(quota.used(), 3);
    assert_eq!(one.ask(1, &Request::Clunk { fid: 2 }), "1 clunk");
    assert_eq!(other.ask(1, &walk(0, 2, &[])), "1 walk 0");
    // Tversion and the end of a connection give back all.
    one.ask(NO_TAG, &Request::Version { msize: 8192, version: "9P2000" });
    assert_eq!(quota.used(), 2);
    // A client can attach where others have used it up.
    one.ask(1, &attach(0, "alice"));
    assert_eq!(one.ask(1, &walk(0, 1, &[])), "1 walk 0");
    assert_eq!(one.ask(1, &walk(0, 2, &[])), "1 error Too many open files");
    drop((one, other));
    assert_eq!(quota.used(), 0);
}

#[test]
fn more_waiting_requests_than_the_limit_are_refused_and_counted() {
    let limits = Limits { tags: 2, ..Limits::default() };
    let mut it = TestClient::with_limits("alice", limits, &Arc::default());
    it.open(1, "queue", READ);
    it.open(2, "queue", READ);
    assert_eq!(it.ask(1, &read(1, 0, 1)), "");
    assert_eq!(it.ask(2, &read(1, 0, 1)), "");
    assert_eq!(it.ask(3, &read(1, 0, 1)), "3 error Resource temporarily unavailable");
    assert_eq!(it.ask(4, &read(2, 0, 1)), "4 error Resource temporarily unavailable");
    assert_eq!(it.connection.take_refused()[Errno::TryAgain.text()], 2);
    // What does not wait is served.
    assert_eq!(it.ask(4, &Request::Stat { fid: 0 }), "4 stat / 20000000555 bob");
}

#[test]
fn writes_that_wait_have_a_limit_of_bytes() {
    let mut it = TestClient::attached("alice");
    it.open(1, "sink", WRITE);
    let content = [7; 8000];
    let refused = (0..200).filter(|tag| {
        let request = Request::Write { fid: 1, offset: 0, content: &content };
        !it.ask(100 + tag, &request).is_empty()
    });
    assert_eq!(refused.count(), 200 - (1 << 20) / 8000);
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    let mut it = TestClient::attached("alice");
    it.open(1, "queue", READ);
    it.world.lock().unwrap().queue.extend(std::iter::repeat_n(b'x', 1 << 20));
    let mut sent = 0;
    while it.connection.wants_input() {
        it.send(1, &read(1, 0, 8000));
        sent += 1;
    }
    assert_eq!(sent, (256 << 10) / 8011 + 1);
    it.frames();
    assert!(it.connection.wants_input());
}

#[test]
fn all_errors_but_one_are_texts_of_linux() {
    // net/9p/error.c of Linux 6.18: the texts that are used here.
    let linux = "Operation not permitted|No such file or directory|Input/output error|\
                 fid unknown or out of range|bad use of fid|fid already in use|\
                 Resource temporarily unavailable|Permission denied|Device or resource busy|\
                 Not a directory|Is a directory|Invalid argument|illegal mode|unknown user|\
                 illegal path element|Too many open files|File too large|\
                 bad offset in directory read|Broken pipe|Too many users|Protocol error|\
                 No such device or address|Argument list too long|Text file busy|File exists|\
                 Directory not empty|No space left on device";
    let linux: Vec<&str> = linux.split('|').collect();
    let others = Errno::ALL.iter().filter(|it| !linux.contains(&it.text()));
    assert_eq!(others.collect::<Vec<_>>(), [&Errno::NoAuthentication]);
}
