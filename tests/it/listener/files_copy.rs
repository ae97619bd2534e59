//! Copies of a session to others: over a tree, with keys, and what a failure leaves.

use super::files::{Raw, own, path, read};
use super::files_session::{Files, refused, served, session, write};
use crate::deadline::until;
use crate::served::{Folder, Served};
use monitor_ninep::Request;
use std::os::unix::net::UnixListener;

/// A session with a program, arguments, an environment and a file of several messages.
fn source(client: &mut Files) -> String {
    let at = session(client);
    write(client, &format!("{at}/argv"), "xc 'an argument'");
    client.open_to_write(&format!("{at}/env")).unwrap();
    client.write_on(b"PATH=/usr/bin:/bin GREETING='good day'").unwrap();
    client.close().unwrap();
    let script = "#!/bin/sh\necho $GREETING $1; cksum < large; exit 3\n";
    client.open_to_write(&format!("{at}/fs/xc")).unwrap();
    client.write_on(script.as_bytes()).unwrap();
    client.close().unwrap();
    client.open_to_write(&format!("{at}/fs/large")).unwrap();
    for _ in 0..40 {
        client.write_on(&large()).unwrap();
    }
    client.close().unwrap();
    at
}

fn large() -> Vec<u8> {
    (0..10_007_u32).map(|it| (it % 251) as u8).collect()
}

/// The keys of new sessions of a service, as targets.
fn targets(served: &Served, client: &mut Files, count: usize) -> Vec<(String, String)> {
    let one = |_| {
        let at = session(client);
        let key = read(client, &format!("{at}/key"));
        (at.clone(), format!("{}/{at}/{key}", path(served).display()))
    };
    (0..count).map(one).collect()
}

/// The line of `ctl` for these targets.
fn line(width: usize, targets: &[&str]) -> String {
    format!("clone {width} {}\n", targets.join(","))
}

/// Executes the program of a session, and returns what it has written.
fn result(client: &mut Files, at: &str) -> (String, String) {
    write(client, &format!("{at}/ctl"), "exec\n");
    let code = read(client, &format!("{at}/wait"));
    (read(client, &format!("{at}/stdout")), code.split(' ').next().unwrap().to_owned())
}

/// The names in `fs/` of a session.
fn stored(client: &mut Files, at: &str) -> Vec<String> {
    client.list(&format!("{at}/fs")).unwrap().into_iter().map(|it| it.name).collect()
}

#[test]
fn a_session_is_copied_over_a_tree_and_each_target_runs_it() {
    let services = [served(), served(), served()];
    let mut clients: Vec<Files> = services.iter().map(own).collect();
    let at = source(&mut clients[0]);
    let mut all = Vec::new();
    for (index, service) in services.iter().enumerate() {
        for (number, target) in targets(service, &mut clients[index], 3) {
            all.push((index, number, target));
        }
    }
    let list: Vec<&str> = all.iter().map(|it| it.2.as_str()).collect();
    write(&mut clients[0], &format!("{at}/ctl"), &line(2, &list));
    let outcomes = read(&mut clients[0], &format!("{at}/err"));
    assert_eq!(outcomes.lines().count(), 9, "{outcomes}");
    assert!(outcomes.lines().all(|it| it.ends_with(" copied")), "{outcomes}");
    // No outcome says a key.
    let key = list[0].rsplit('/').next().unwrap();
    assert!(!outcomes.contains(key), "{outcomes}");
    let (want, code) = result(&mut clients[0], &at);
    assert!(want.starts_with("good day an argument\n") && want.ends_with(" 400280\n"), "{want}");
    assert_eq!(code, "3");
    for (index, number, _) in &all {
        assert_eq!(stored(&mut clients[*index], number), ["large", "xc"]);
        assert_eq!(result(&mut clients[*index], number), (want.clone(), code.clone()));
    }
}

#[test]
fn what_a_dead_target_would_copy_to_is_copied_from_its_parent() {
    let (one, other) = (served(), served());
    let (mut it, mut its) = (own(&one), own(&other));
    let at = source(&mut it);
    let folder = Folder::new();
    // One that is not there, and one that closes each connection.
    let none = format!("{}/3/{}", folder.join("none.9p").display(), "0".repeat(32));
    let closing = UnixListener::bind(folder.join("closing.9p")).unwrap();
    let closes = format!("{}/4/{}", folder.join("closing.9p").display(), "0".repeat(32));
    let _thread = std::thread::spawn(move || closing.incoming().for_each(drop));
    let living = targets(&other, &mut its, 4);
    let living: Vec<&str> = living.iter().map(|it| it.1.as_str()).collect();
    let list = [&none[..], living[0], living[1], &closes, living[2], living[3]];
    let ctl = format!("{at}/ctl");
    assert_eq!(refused(&mut it, &ctl, &line(2, &list)), "Input/output error");
    assert!(read(&mut it, "err").contains("clone: 2 of 6 copies failed"));
    let outcomes = read(&mut it, &format!("{at}/err"));
    let lines: Vec<&str> = outcomes.lines().collect();
    assert_eq!(lines.len(), 7, "{outcomes}");
    assert!(lines[1].contains("none.9p/3 failed: cannot connect to"), "{outcomes}");
    assert!(lines[4].contains("closing.9p/4 failed: the connection is lost"), "{outcomes}");
    assert_eq!(lines.iter().filter(|it| it.ends_with(" copied")).count(), 4, "{outcomes}");
    // A chain of all of them, which have their copies already: nothing changes.
    assert_eq!(refused(&mut it, &ctl, &line(1, &list)), "Input/output error");
    let again = read(&mut it, &format!("{at}/err"));
    assert_eq!(again.lines().filter(|it| it.ends_with(" copied")).count(), 4, "{again}");
    assert_eq!(refused(&mut it, &ctl, "signal 9\n"), "No such device or address");
    assert_eq!(read(&mut it, &format!("{at}/err")).lines().count(), 1);
}

/// Bytes of a file that takes a while to copy.
const SLOW: usize = 32 << 20;

#[test]
fn a_relay_that_is_killed_in_the_middle_of_a_copy_is_named_and_its_part_is_copied() {
    let (one, mut relay, last) = (served(), served(), served());
    let (mut it, mut of_relay, mut of_last) = (own(&one), own(&relay), own(&last));
    let at = source(&mut it);
    it.open_to_write(&format!("{at}/fs/slow")).unwrap();
    for _ in 0..SLOW / 32_768 {
        it.write_on(&[7; 32_768]).unwrap();
    }
    it.close().unwrap();
    let (first, rest) = (targets(&relay, &mut of_relay, 1), targets(&last, &mut of_last, 2));
    let list = [&first[0], &rest[0], &rest[1]].map(|it| it.1.as_str());
    let (ctl, command) = (format!("{at}/ctl"), line(1, &list));
    let mut control = own(&one);
    let copies = std::thread::spawn(move || refused(&mut control, &ctl, &command));
    // Part of it has arrived.
    let slow = format!("{}/fs/slow", first[0].0);
    until(|| of_relay.stat(&slow).ok().filter(|it| it.length > 0));
    relay.kill();
    assert_eq!(copies.join().unwrap(), "Input/output error");
    let outcomes = read(&mut it, &format!("{at}/err"));
    let lines: Vec<&str> = outcomes.lines().collect();
    assert_eq!(lines.len(), 4, "{outcomes}");
    assert!(lines[0].contains("clone: 1 of 3 copies failed"), "{outcomes}");
    let named = |at: usize| lines[at + 1].split_once(' ').unwrap();
    let place = |target: &str| target.rsplit_once('/').unwrap().0.to_owned();
    for (at, target) in list.into_iter().enumerate() {
        assert_eq!(named(at).0, place(target), "{outcomes}");
    }
    assert!(named(0).1.starts_with("failed: the connection is lost"), "{outcomes}");
    assert_eq!([named(1).1, named(2).1], ["copied"; 2], "{outcomes}");
    let of_source = result(&mut it, &at);
    for (target, _) in &rest {
        assert_eq!(result(&mut of_last, target), of_source);
        let length = of_last.stat(&format!("{target}/fs/slow")).unwrap().length;
        assert_eq!(length, SLOW as u64);
    }
}

#[test]
fn a_key_permits_one_copy_to_its_own_session() {
    let served = served();
    let mut it = own(&served);
    let at = source(&mut it);
    let ctl = format!("{at}/ctl");
    let all = targets(&served, &mut it, 2);
    let file = it.stat(&format!("{}/key", all[0].0)).unwrap();
    assert_eq!((file.mode & 0o777, file.length), (0o400, 32));
    let address = path(&served).display().to_string();
    let with = |number: &str, key: &str| format!("{address}/{number}/{key}");
    let key = |target: &str| target.rsplit('/').next().unwrap().to_owned();
    let why = |it: &mut Files, target: &str| {
        assert_eq!(refused(it, &ctl, &line(0, &[target])), "Input/output error", "{target}");
        read(it, &format!("{at}/err"))
    };
    let not_its_own = "failed: the key is not that of the session: read its file key";
    let (first, second) = (&all[0], &all[1]);
    for odd in [
        with(&first.0, &key(&second.1)),
        with(&first.0, &"0".repeat(32)),
        with("4000", &key(&first.1)),
    ] {
        let why = why(&mut it, &odd);
        assert!(why.contains(not_its_own), "{why}");
    }
    // A loop of one.
    let own_key = read(&mut it, &format!("{at}/key"));
    let loops = why(&mut it, &with(&at, &own_key));
    assert!(loops.contains("failed: a loop: the copy has come through this session"), "{loops}");
    write(&mut it, &ctl, &line(0, &[&first.1]));
    // The same content again changes nothing, other content is refused.
    write(&mut it, &ctl, &line(0, &[&first.1]));
    write(&mut it, &format!("{at}/argv"), "other");
    assert!(why(&mut it, &first.1).contains("failed: the key was used"));
    // A new key takes the place of the last one, and files of that name are there.
    let new = with(&first.0, &read(&mut it, &format!("{}/key", first.0)));
    assert!(why(&mut it, &first.1).contains(not_its_own));
    let exists = why(&mut it, &new);
    assert!(exists.contains("failed: fs/large: File exists"), "{exists}");
    assert_eq!(read(&mut it, &format!("{}/argv", first.0)), "xc 'an argument'");
    // A session that has executed its program takes none.
    write(&mut it, &format!("{}/ctl", second.0), "exec /bin/true\n");
    assert!(why(&mut it, &second.1).contains("failed: the program of the session was executed"));
    let twice = line(0, &[&second.1, &second.1]);
    assert_eq!(refused(&mut it, &ctl, &twice), "Invalid argument");
    let tcp = format!("tcp!127.0.0.1!1/1/{}", key(&second.1));
    let refused = why(&mut it, &tcp);
    assert!(refused.contains("TCP without TLS authenticates no node"), "{refused}");
}

/// A copy of one file, as the service encodes it: postcard, in a frame behind its version.
fn copy_of(session: &str, key: &str, content: &[u8], digest: [u8; 32]) -> Vec<u8> {
    let mut body = vec![session.parse::<u8>().unwrap()];
    let mut put = |bytes: &[u8]| {
        body.push(u8::try_from(bytes.len()).unwrap());
        body.extend_from_slice(bytes);
    };
    put(key.as_bytes());
    body.push(0);
    // 50 s, as a number of seven bits a byte.
    body.extend_from_slice(&[0xd0, 0x86, 0x03]);
    let texts = b"\x04argv\x05A=env\x01\x04file";
    body.extend_from_slice(texts);
    body.extend_from_slice(&[0xed, 0x03, 1, u8::try_from(content.len()).unwrap()]);
    body.extend_from_slice(&digest);
    body.push(0);
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [b"monitor copy 1\n", &length[..], &body].concat()
}

/// The type of Rwrite.
const WRITTEN: &str = "119";
/// SHA-256 of `abc` (FIPS 180-2, appendix B.1).
const ABC: [u8; 32] = [
    0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
];

#[test]
fn a_copy_that_is_wrong_or_has_no_end_leaves_the_session_as_it_was() {
    let served = served();
    let mut it = own(&served);
    let (at, target) = targets(&served, &mut it, 1).remove(0);
    let key = target.rsplit('/').next().unwrap().to_owned();
    let ctl = format!("{at}/ctl");
    let copy = |digest| copy_of(&at, &key, b"abc", digest);
    let sent = |content: &[u8]| {
        let mut raw = Raw::attached_as(&served, "none");
        raw.open(1, "copy", 2);
        raw.send(2, &Request::Write { fid: 1, offset: 0, content });
        (raw.reply(), raw)
    };
    // Without its end it keeps a program from running, and closed it leaves nothing.
    let (reply, raw) = sent(&[&copy(ABC)[..], b"ab"].concat());
    assert_eq!(reply, WRITTEN);
    assert_eq!(stored(&mut it, &at), ["file"]);
    assert_eq!(refused(&mut it, &ctl, "exec /bin/true\n"), "Device or resource busy");
    drop(raw);
    until(|| stored(&mut it, &at).is_empty().then_some(()));
    let wrong = [&copy([1; 32])[..], b"abc"].concat();
    assert_eq!(sent(&wrong).0, "error Input/output error");
    assert_eq!(sent(&[&copy(ABC)[..], b"abcd"].concat()).0, "error Invalid argument");
    assert_eq!(sent(b"GET / HTTP/1.1").0, "error Invalid argument");
    assert_eq!(sent(b"monitor copy 1\n\xff\xff\xff\xff").0, "error File too large");
    assert!(stored(&mut it, &at).is_empty());
    assert_eq!(read(&mut it, &format!("{at}/argv")), "");
    // One with the key takes the place of one that has not ended.
    let (_, mut first) = sent(&copy(ABC));
    let (reply, mut second) = sent(&[&copy(ABC)[..], b"abc"].concat());
    assert_eq!(reply, WRITTEN);
    first.send(2, &Request::Write { fid: 1, offset: copy(ABC).len() as u64, content: b"abc" });
    assert_eq!(first.reply(), "error Broken pipe");
    second.send(2, &Request::Read { fid: 1, offset: 0, count: 100 });
    assert_eq!(second.reply(), "read");
    drop((first, second));
    assert_eq!(stored(&mut it, &at), ["file"]);
    assert_eq!(read(&mut it, &format!("{at}/fs/file")), "abc");
    assert_eq!(read(&mut it, &format!("{at}/argv")), "argv");
    write(&mut it, &ctl, "exec /bin/true\n");
}

#[test]
fn a_clone_that_is_abandoned_ends_and_holds_up_no_other() {
    let served = served();
    let mut it = own(&served);
    let at = source(&mut it);
    let folder = Folder::new();
    let silent = UnixListener::bind(folder.join("silent.9p")).unwrap();
    let target = format!("{}/3/{}", folder.join("silent.9p").display(), "0".repeat(32));
    let mut raw = Raw::attached_as(&served, &format!("#{}", rustix::process::geteuid().as_raw()));
    raw.open(1, &format!("{at}/ctl"), 1);
    let content = line(0, &[&target]);
    raw.send(2, &Request::Write { fid: 1, offset: 0, content: content.as_bytes() });
    let (stream, _) = silent.accept().unwrap();
    // Others are served, and one `clone` of a session runs at a time.
    assert_eq!(refused(&mut it, &format!("{at}/ctl"), &content), "Device or resource busy");
    raw.send(3, &Request::Flush { old: 2 });
    assert_eq!(raw.reply(), "flush");
    let (_, target) = targets(&served, &mut it, 1).remove(0);
    write(&mut it, &format!("{at}/ctl"), &line(0, &[&target]));
    drop(stream);
}

#[cfg(feature = "tls")]
#[test]
fn a_node_copies_over_tls_with_its_certificate_and_the_key() {
    use super::files::attach;
    use super::files_listen::certificate;
    use monitor_ninep::client::ClientError;
    let uid = rustix::process::geteuid().as_raw();
    let config = |of: &str| {
        let tls = "tls = \"127.0.0.1:0\"\nlisten = \"127.0.0.1:0\"\n";
        Served::with(&format!("[files]\nexecute = [{uid}]\n{tls}{}", certificate(of)))
    };
    let (one, other) = (config("client"), config("server"));
    let (mut it, mut its) = (own(&one), own(&other));
    let at = source(&mut it);
    let address = read(&mut its, "addr");
    let (first, second) = (targets(&other, &mut its, 1), targets(&one, &mut it, 1));
    let over_tls = |address: &str, (number, target): &(String, String)| {
        let key = target.rsplit('/').next().unwrap();
        format!("{}/{number}/{key}", address.trim())
    };
    let list = [over_tls(&address, &first[0]), over_tls(&read(&mut it, "addr"), &second[0])];
    // A chain: the other node copies back to a session of this one.
    write(&mut it, &format!("{at}/ctl"), &line(1, &[&list[0], &list[1]]));
    assert_eq!(result(&mut its, &first[0].0), result(&mut it, &second[0].0));
    // A service without a certificate reaches none.
    let third = served();
    let mut its_own = own(&third);
    let at = source(&mut its_own);
    let one = targets(&other, &mut its, 1);
    let target = over_tls(&address, &one[0]);
    let ctl = format!("{at}/ctl");
    assert_eq!(refused(&mut its_own, &ctl, &line(0, &[&target])), "Input/output error");
    let why = read(&mut its_own, &format!("{at}/err"));
    assert!(why.contains("TLS between nodes needs the certificate of this node"), "{why}");
    assert!(matches!(attach(&other, "none").stat("copy"), Ok(it) if it.mode & 0o777 == 0o666));
    assert!(matches!(its.write("copy", b"x"), Err(ClientError::Refused(_))));
}
