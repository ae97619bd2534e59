//! Another implementation, the crate `ninep`: the same bytes, and its client against our server.

use super::world::TestTree;
use crate::frame::FrameBuffer;
use crate::limits::Limits;
use crate::{Connection, NO_FID, Request};
use ninep::sansio::protocol::{NineP as _, Tdata, Tmessage};
use ninep::sync::client::Client;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

#[track_caller]
fn same(ours: &Request<'_>, theirs: Tdata) {
    let mut bytes = Vec::new();
    ours.put(0x0102, &mut bytes);
    assert_eq!(bytes, Tmessage::new(0x0102, theirs).write_9p_bytes().unwrap());
}

#[test]
fn requests_have_the_same_bytes() {
    same(&Request::Version { msize: 8192, version: "9P2000" }, Tdata::version(8192, "9P2000"));
    same(&Request::Auth { afid: 1, user: "u", tree: "t" }, Tdata::auth(1, "u", "t"));
    same(
        &Request::Attach { fid: 1, afid: NO_FID, user: "u", tree: "" },
        Tdata::attach(1, NO_FID, "u", ""),
    );
    same(&Request::Flush { old: 77 }, Tdata::flush(77));
    let names = vec!["a".to_owned(), "größe".to_owned()];
    same(&Request::Walk { fid: 1, new: 2, names: vec!["a", "größe"] }, Tdata::walk(1, 2, names));
    same(&Request::Open { fid: 1, mode: 0x12 }, Tdata::open(1, 0x12));
    same(
        &Request::Create { fid: 1, name: "n", permissions: 0o755, mode: 2 },
        Tdata::create(1, "n", 0o755, 2),
    );
    same(&Request::Read { fid: 1, offset: 1 << 40, count: 9 }, Tdata::read(1, 1 << 40, 9_u32));
    same(&Request::Clunk { fid: 1 }, Tdata::clunk(1));
    same(&Request::Remove { fid: 1 }, Tdata::remove(1));
    same(&Request::Stat { fid: 1 }, Tdata::stat(1));
}

/// Serves one connection on a thread, until the client closes it.
fn serve(mut stream: UnixStream) {
    let mut connection = Connection::new(TestTree(Arc::default()), Limits::default());
    let (mut frames, mut bytes) = (FrameBuffer::default(), [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        frames.extend(&bytes[..n]);
        while let Some(frame) = frames.next(connection.message_bytes()).unwrap() {
            connection.receive(&frame).unwrap();
        }
        stream.write_all(&std::mem::take(connection.output())).unwrap();
    }
}

#[test]
fn its_client_lists_and_reads_our_files() {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || serve(far));
    let client = Client::new_from_unix_stream("bob", "", near).unwrap();
    assert_eq!(client.read_str("text").unwrap(), "hello, world\n");
    assert_eq!(client.read_str("sub/leaf").unwrap(), "hello, world\n");
    let names: Vec<String> =
        client.read_dir("sub").unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["leaf"]);
    assert!(client.read_str("absent").is_err());
}
