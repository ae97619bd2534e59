//! The 9P socket: what its files say to which user, and what is refused.

use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Served, monitor};
use monitor_ninep::client::{Client, ClientError};
use monitor_ninep::frame::{Frame, FrameBuffer};
use monitor_ninep::{NO_FID, NO_TAG, Reply, Request};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The 9P socket of a daemon.
pub fn path(served: &Served) -> PathBuf {
    let mut path = served.socket().as_os_str().to_owned();
    path.push(".9p");
    path.into()
}

pub fn attach(served: &Served, user: &str) -> Client<UnixStream> {
    Client::attach(UnixStream::connect(path(served)).unwrap(), user).unwrap()
}

/// A client as the user of this process.
pub fn own(served: &Served) -> Client<UnixStream> {
    attach(served, &format!("#{}", rustix::process::geteuid().as_raw()))
}

pub fn read(client: &mut Client<UnixStream>, path: &str) -> String {
    let mut out = Vec::new();
    let take = |content: &[u8]| {
        out.extend_from_slice(content);
        true
    };
    client.read_while(path, take).unwrap();
    String::from_utf8(out).unwrap()
}

/// The standard output of a command that succeeds.
#[track_caller]
pub fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    text(output.stdout)
}

/// The value of a column of `procs` for a process.
pub fn value(procs: &str, pid: u32, column: &str) -> Option<String> {
    let mut lines = procs.lines();
    let names: Vec<&str> = lines.next()?.trim_matches(['(', ')']).split(' ').collect();
    let at = names.iter().position(|it| *it == column)?;
    let line = lines.find(|it| it.starts_with(&format!("({pid} (")))?;
    // Behind the list of the command line there is none with blanks in these tests.
    let (_, rest) = line.split_once(") ")?;
    rest.trim_end_matches(')').split(' ').nth(at - 2).map(str::to_owned)
}

#[test]
fn the_root_of_a_node_is_listed_and_read() {
    let served = Served::with("");
    let mut client = own(&served);
    let names: Vec<String> = client.list("/").unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names.join(" "), "addr arch ctl env err mon procs state uname version whoami");
    let arch = read(&mut client, "arch");
    assert_eq!(arch, format!("/Linux/{}\n", std::env::consts::ARCH));
    assert_eq!(read(&mut client, "uname"), arch);
    assert_eq!(read(&mut client, "state"), "");
    assert_eq!(read(&mut client, "env"), "PATH=/usr/local/bin:/usr/bin:/bin\n");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        read(&mut client, "version"),
        format!("(version monitor {version} (9p 9P2000) (ebpf no))\n")
    );
    let whoami = read(&mut client, "whoami");
    let uid = rustix::process::geteuid().as_raw();
    assert!(whoami.ends_with(&format!("(uid {uid}) (auth peercred))\n")), "{whoami}");
    assert_eq!(client.stat("arch").unwrap().length, arch.len() as u64);
}

#[test]
fn procs_has_the_processes_of_a_reading() {
    let served = Served::with("");
    let mut client = own(&served);
    let procs = read(&mut client, "procs");
    let header = procs.lines().next().unwrap();
    assert!(header.starts_with("(pid (cmdline) state ppid pgrp psid tty tpgid utime stime etime"));
    assert_eq!(value(&procs, 1234, "comm").as_deref(), Some("test-stats"));
    // A stat is a reading, and the next open has its text.
    let length = client.stat("procs").unwrap().length;
    assert_eq!(read(&mut client, "procs").len() as u64, length);
    // Every line is a record with as many values as the header has names.
    for line in procs.lines() {
        assert!(line.starts_with('(') && line.ends_with(')'), "{line}");
    }
}

#[test]
fn a_sample_of_the_node_has_the_numbers_that_its_description_names() {
    let served = Served::with("");
    let mut client = own(&served);
    let names: Vec<String> = client.list("mon").unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names.join(" "), "cpu ctl desc disk event hw log net node pull push syslog");
    let description = read(&mut client, "mon/desc");
    assert!(description.contains("(cat node (var uptime_ns gauge ns)"), "{description}");
    let first = read(&mut client, "mon/pull");
    assert!(first.starts_with("(sample (node ") && first.contains(" (seq 1) (node "), "{first}");
    assert!(first.contains("(uptime_ns ") && first.lines().count() == 1, "{first}");
    // Each read from 0 is a sample of its own.
    assert!(read(&mut client, "mon/pull").contains(" (seq 2) "));
    assert_eq!(read(&mut client, "mon/../arch"), read(&mut client, "arch"));
}

#[test]
fn an_error_is_a_text_of_linux_and_err_explains_it() {
    let served = Served::with("");
    let mut client = own(&served);
    let absent = client.read_while("absent", |_| true);
    assert!(matches!(absent, Err(ClientError::Refused(it)) if it == "No such file or directory"));
    assert_eq!(read(&mut client, "err"), "there is no file \"absent\"\n");
    let written = client.write("arch", b"x");
    assert!(matches!(written, Err(ClientError::Refused(_))), "{written:?}");
    // Another connection has had no error.
    assert_eq!(read(&mut own(&served), "err"), "");
}

#[test]
fn commands_list_and_read_the_files() {
    let served = Served::with("");
    assert_eq!(
        output(served.command("files ls")),
        "addr\narch\nctl\nenv\nerr\nmon/\nprocs\nstate\nuname\nversion\nwhoami\n"
    );
    let arch = format!("/Linux/{}\n", std::env::consts::ARCH);
    assert_eq!(output(served.command("files cat arch /uname")), arch.repeat(2));
    let long = output(served.command("files ls -l arch"));
    assert!(long.starts_with("-r--r--r-- ") && long.ends_with(" arch\n"), "{long}");
    let refused = served.command("files cat absent").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "monitor: absent: No such file or directory: there is no file \"absent\"\n"
    );
    let nowhere = monitor().args(["files", "ls", "--at", "/nonexistent/9p"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(7));
}

#[test]
fn the_socket_is_where_the_configuration_says_and_is_removed_at_the_end() {
    let mut served = Served::with("");
    let beside = path(&served);
    assert!(beside.exists());
    // Its loop runs, so that it handles the signal.
    served.status();
    served.signal(Signal::TERM);
    served.ends();
    assert!(!beside.exists());
    let off = Served::with("[files]\nsocket = \"off\"\n");
    assert!(!path(&off).exists());
    let folder = crate::served::Folder::new();
    let elsewhere = folder.join("node.9p");
    let config = format!("[files]\nsocket = {:?}\n", elsewhere);
    let other = Served::with(&config);
    assert!(!path(&other).exists());
    let mut it = monitor();
    it.args(["files", "cat", "arch", "--at"]).arg(&elsewhere);
    assert!(output(it).starts_with("/Linux/"));
}

#[test]
fn connections_beyond_the_limit_are_refused_by_name() {
    let served = Served::with("");
    let mut first = own(&served);
    let held: Vec<_> = (1..64).map(|_| own(&served)).collect();
    let stream = UnixStream::connect(path(&served)).unwrap();
    let refused = Client::attach(stream, "").err().unwrap();
    assert_eq!(refused.to_string(), "Too many users");
    assert_eq!(served.status()["refused"]["9P connections of a user"], 1);
    assert_eq!(first.list("/").unwrap().len(), 11);
    drop(held);
    until(|| {
        let stream = UnixStream::connect(path(&served)).unwrap();
        Client::attach(stream, "none").ok()
    });
}

#[test]
fn fids_beyond_the_limit_are_refused_and_counted() {
    let served = Served::with("");
    let mut raw = Raw::attached(&served);
    for new in 1..4200_u32 {
        raw.send(7, &Request::Walk { fid: 0, new, names: vec![] });
    }
    let refused = (1..4200).filter(|_| raw.reply() == "error Too many open files").count();
    assert_eq!(refused, 4199 - 4095);
    drop(raw);
    until(|| (served.status()["refused"]["9P Too many open files"] == 104).then_some(()));
}

#[test]
fn hostile_bytes_end_their_connection_and_no_other() {
    let served = Served::with("");
    let mut other = own(&served);
    for bytes in [&[6, 0, 0, 0][..], &[255; 64], &[0; 64], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = UnixStream::connect(path(&served)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // It may be reset, as bytes of it were not read.
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
        assert_eq!(other.list("/").unwrap().len(), 11);
    }
    let closed = until(|| served.status()["refused"]["9P connection closed"].as_u64());
    assert!(closed >= 1);
}

#[test]
fn a_flushed_read_of_procs_has_no_reply() {
    let served = Served::with("");
    let mut raw = Raw::attached(&served);
    raw.ask(&Request::Walk { fid: 0, new: 1, names: vec!["procs"] });
    raw.ask(&Request::Open { fid: 1, mode: 0 });
    let mut n_without_reply = 0;
    for _ in 0..50 {
        raw.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
        raw.send(2, &Request::Flush { old: 1 });
        raw.send(3, &Request::Stat { fid: 0 });
        // A reading may end before the flush comes; its reply never follows that of the flush.
        match raw.reply().as_str() {
            "read" => assert_eq!(raw.reply(), "flush"),
            first => {
                assert_eq!(first, "flush");
                n_without_reply += 1;
            }
        }
        assert_eq!(raw.reply(), "stat");
    }
    assert_ne!(n_without_reply, 0, "no reading was flushed");
    raw.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    assert_eq!(raw.reply(), "read");
}

#[test]
fn root_a_user_beyond_its_processor_time_waits_and_gets_all_replies() {
    if !able("root_a_user_beyond_its_processor_time_waits_and_gets_all_replies") {
        return;
    }
    let served = Served::with("[limits]\nprocessor = \"1%\"\n");
    as_user(&[], || {
        let mut clients: Vec<_> = (0..4).map(|_| Raw::attached(&served)).collect();
        for raw in &mut clients {
            for fid in 1..=60 {
                raw.send(7, &Request::Walk { fid: 0, new: fid, names: vec!["procs"] });
                raw.send(7, &Request::Open { fid, mode: 0 });
                raw.send(fid as u16 + 100, &Request::Read { fid, offset: 0, count: 8000 });
            }
        }
        // More messages arrive while readings wait for the turn of their user.
        for raw in &mut clients {
            raw.send(7, &Request::Stat { fid: 0 });
        }
        for raw in &mut clients {
            let replies: Vec<String> = (0..181).map(|_| raw.reply()).collect();
            let count = |kind| replies.iter().filter(|it| *it == kind).count();
            assert_eq!((count("read"), count("stat")), (60, 1), "{replies:?}");
        }
    });
}

#[test]
fn root_a_user_is_itself_and_root_is_the_user_that_it_names() {
    if !able("root_a_user_is_itself_and_root_is_the_user_that_it_names") {
        return;
    }
    let served = Served::start("procfs");
    // Its own process, whose bytes are private to root.
    let of_root = served.pid();
    let whoami = |client: &mut Client<_>| read(client, "whoami");
    assert_eq!(
        whoami(&mut attach(&served, "root")),
        "(whoami (user root) (uid 0) (auth peercred))\n"
    );
    for unnamed in ["", "nobody", "none"] {
        let mut none = attach(&served, unnamed);
        assert_eq!(whoami(&mut none), "(whoami (user none) (uid 4294967295) (auth none))\n");
        let procs = read(&mut none, "procs");
        assert_eq!(value(&procs, of_root, "read_bytes").as_deref(), Some("''"));
        assert_eq!(value(&procs, of_root, "comm").as_deref(), Some("monitor"));
    }
    let all = read(&mut attach(&served, "root"), "procs");
    assert_ne!(value(&all, of_root, "read_bytes").as_deref(), Some("''"));
    assert!(attach(&served, "daemon").stat("whoami").is_ok());
    // A user of this machine.
    as_user(&[], || {
        let mut own = attach(&served, "");
        let expected = format!("(whoami (user {USER}) (uid {USER}) (auth peercred))\n");
        assert_eq!(whoami(&mut own), expected);
        let procs = read(&mut own, "procs");
        assert_eq!(value(&procs, of_root, "read_bytes").as_deref(), Some("''"));
        for other in ["root", "#0", "daemon"] {
            let stream = UnixStream::connect(path(&served)).unwrap();
            let refused = Client::attach(stream, other).err().unwrap();
            assert_eq!(refused.to_string(), "Permission denied", "{other}");
        }
    });
}

/// A client that sends before it reads.
pub struct Raw {
    stream: UnixStream,
    frames: FrameBuffer,
}

impl Raw {
    fn attached(served: &Served) -> Self {
        Self::attached_as(served, "none")
    }

    pub fn attached_as(served: &Served, user: &str) -> Self {
        Self::connected(&path(served), user)
    }

    /// A connection to the socket at this path.
    pub fn connected(at: &Path, user: &str) -> Self {
        let stream = UnixStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut raw = Self { stream, frames: FrameBuffer::default() };
        raw.send(NO_TAG, &Request::Version { msize: 8192, version: "9P2000" });
        assert_eq!(raw.reply(), "version");
        raw.ask(&Request::Attach { fid: 0, afid: NO_FID, user, tree: "" });
        raw
    }

    /// Walks to a file and opens it, as this fid.
    #[track_caller]
    pub fn open(&mut self, fid: u32, path: &str, mode: u8) {
        self.ask(&Request::Walk { fid: 0, new: fid, names: path.split('/').collect() });
        self.ask(&Request::Open { fid, mode });
    }

    pub fn send(&mut self, tag: u16, request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.put(tag, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Sends a request that succeeds.
    #[track_caller]
    pub fn ask(&mut self, request: &Request<'_>) {
        self.send(9, request);
        let reply = self.reply();
        assert!(!reply.starts_with("error"), "{reply}");
    }

    /// The text that a read returns.
    #[track_caller]
    pub fn read(&mut self, fid: u32, offset: u64) -> String {
        self.send(9, &Request::Read { fid, offset, count: 8000 });
        self.content()
    }

    /// The content of the next reply, which is one to Tread.
    #[track_caller]
    pub fn content(&mut self) -> String {
        let frame = self.frame();
        match Reply::decode(frame.kind, &frame.body).unwrap() {
            Reply::Read { content } => String::from_utf8(content.to_vec()).unwrap(),
            other => panic!("a reply of type {}", other.kind()),
        }
    }

    /// The content of the next reply, or its type if it is none to Tread.
    pub fn reply_or_content(&mut self) -> Result<String, String> {
        let frame = self.frame();
        match Reply::decode(frame.kind, &frame.body).unwrap() {
            Reply::Read { content } => Ok(String::from_utf8(content.to_vec()).unwrap()),
            Reply::Flush => Err("flush".to_owned()),
            other => Err(format!("{}", other.kind())),
        }
    }

    /// The type of the next reply, or the text of an error.
    pub fn reply(&mut self) -> String {
        let frame = self.frame();
        match Reply::decode(frame.kind, &frame.body).unwrap() {
            Reply::Error { text } => format!("error {text}"),
            Reply::Version { .. } => "version".to_owned(),
            Reply::Flush => "flush".to_owned(),
            Reply::Stat { .. } => "stat".to_owned(),
            Reply::Read { .. } => "read".to_owned(),
            other => format!("{}", other.kind()),
        }
    }

    fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.frames.next(u32::MAX).unwrap() {
                return frame;
            }
            let mut bytes = [0; 4096];
            let n = match self.stream.read(&mut bytes) {
                // A process that was stopped is interrupted there (signal(7)).
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            assert!(n > 0, "the connection is closed");
            self.frames.extend(&bytes[..n]);
        }
    }
}
