//! Sessions over the 9P socket: programs of users, their streams, their files, and their end.

use super::files::{Raw, attach, output, own, path, read};
use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Served, monitor};
use monitor_ninep::client::{Client, ClientError};
use monitor_ninep::{Request, Stat};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

pub type Files = Client<UnixStream>;

/// A service where the user of the tests may execute.
pub fn served() -> Served {
    Served::with(&format!("[files]\nexecute = [{}]\n", rustix::process::geteuid().as_raw()))
}

/// A new session: its number, as a path.
pub fn session(client: &mut Files) -> String {
    let number = read(client, "clone");
    assert!(number.parse::<u32>().is_ok(), "{number}");
    number
}

pub fn write(client: &mut Files, path: &str, text: &str) {
    client.write(path, text.as_bytes()).unwrap_or_else(|why| panic!("{path}: {why}"));
}

/// What the server says to a write that it refuses.
pub fn refused(client: &mut Files, path: &str, text: &str) -> String {
    match client.write(path, text.as_bytes()) {
        Err(ClientError::Refused(why)) => why,
        other => panic!("{path}: {other:?}"),
    }
}

/// Executes a script of the shell in a new session.
pub fn script(client: &mut Files, text: &str) -> String {
    let at = session(client);
    write(client, &format!("{at}/argv"), &format!("sh -c '{}'", text.replace('\'', "''")));
    write(client, &format!("{at}/ctl"), "exec /bin/sh\n");
    at
}

/// Whether a process has this word as its command line's last.
fn runs(mark: &str) -> bool {
    let found = Command::new("pgrep").args(["-f", &format!("{mark}$")]).output().unwrap();
    !found.stdout.is_empty()
}

#[test]
fn a_session_executes_a_program_and_its_files_say_what_it_does() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let file = |name: &str| format!("{at}/{name}");
    let names: Vec<String> = it.list(&at).unwrap().into_iter().map(|it| it.name).collect();
    let want = "argv ctl env err fs id job key mon state stderr stdin stdio stdout wait";
    assert_eq!(names.join(" "), want);
    assert_eq!(read(&mut it, &file("ctl")), "-1");
    assert_eq!(read(&mut it, &file("env")), "PATH=/usr/local/bin:/usr/bin:/bin\n");
    let text = "cat; echo $A $XCPUID $XCPUSID >&2; exit 3";
    write(&mut it, &file("argv"), &format!("sh -c '{text}'"));
    it.open_to_write(&file("env")).unwrap();
    it.write_on(b"PATH=/bin:/usr/bin A='x y'").unwrap();
    it.close().unwrap();
    write(&mut it, &file("ctl"), "id 7/2\nexec /bin/sh\n");
    assert!(read(&mut it, &file("ctl")).parse::<u32>().is_ok());
    write(&mut it, &file("stdin"), "one\n");
    write(&mut it, &file("stdin"), "two\n");
    write(&mut it, &file("ctl"), "close stdin\n");
    let wait = read(&mut it, &file("wait"));
    assert!(wait.starts_with("3 exit 3 ") && wait.split(' ').count() == 7, "{wait}");
    assert_eq!(read(&mut it, &file("wait")), wait);
    // Each reader reads all of it, also late.
    for _ in 0..2 {
        assert_eq!(read(&mut it, &file("stdout")), "one\ntwo\n");
        assert_eq!(read(&mut it, &file("stderr")), format!("x y 7/2 {at}\n"));
    }
    assert_eq!(read(&mut it, &file("id")), "7/2");
    assert_eq!(refused(&mut it, &file("stdin"), "x"), "Broken pipe");
    assert_eq!(refused(&mut it, &file("ctl"), "exec /bin/sh\n"), "Device or resource busy");
    assert_eq!(refused(&mut it, &file("ctl"), "signal 9\n"), "No such device or address");
    write(&mut it, &file("ctl"), "wipe\n");
    assert!(matches!(it.stat(&at), Err(ClientError::Refused(_))));
}

#[test]
fn without_a_grant_there_are_no_sessions() {
    let served = Served::with("");
    assert!(own(&served).read_while("clone", |_| true).is_err());
    let other = Served::with("[files]\nexecute = [4242]\n");
    let mut it = own(&other);
    assert!(it.list("/").unwrap().iter().any(|it| it.name == "clone"));
    let denied = it.read_while("clone", |_| true);
    assert!(matches!(denied, Err(ClientError::Refused(why)) if why == "Permission denied"));
    let explanation = read(&mut it, "err");
    assert!(explanation.contains("files.execute") || explanation.contains("may not read clone"));
}

#[test]
fn a_failed_exec_is_reported_and_a_later_one_runs() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let (ctl, wait) = (format!("{at}/ctl"), format!("{at}/wait"));
    assert_eq!(refused(&mut it, &ctl, "exec /nonexistent\n"), "No such file or directory");
    assert_eq!(read(&mut it, &wait), "127 execfail 2 0 0 0 0\n");
    assert_eq!(refused(&mut it, &ctl, "exec /etc/passwd\n"), "Permission denied");
    assert_eq!(read(&mut it, &wait), "126 execfail 13 0 0 0 0\n");
    assert!(read(&mut it, &format!("{at}/err")).contains("/etc/passwd"));
    write(&mut it, &format!("{at}/argv"), &"x ".repeat(65_000));
    write(&mut it, &ctl, "exec /bin/true\n");
    assert!(read(&mut it, &wait).starts_with("0 exit 0 "));
    let at = session(&mut it);
    // One argument is longer than the kernel accepts (MAX_ARG_STRLEN).
    write(&mut it, &format!("{at}/argv"), &"x".repeat(128 << 10));
    let long = refused(&mut it, &format!("{at}/ctl"), "exec /bin/true\n");
    assert_eq!(long, "Argument list too long");
    assert_eq!(refused(&mut it, &format!("{at}/argv"), &"x".repeat(200_000)), "File too large");
}

#[test]
fn lines_that_are_none_are_refused_and_leave_nothing() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let ctl = format!("{at}/ctl");
    for line in ["odd\n", "exec 'a\n", "exec a\0b\n", "signal\n", "type odd\n", "exec ../sh\n"] {
        assert_eq!(refused(&mut it, &ctl, line), "Invalid argument", "{line:?}");
    }
    assert_eq!(refused(&mut it, &ctl, "clone 2 x\n"), "Invalid argument");
    // The first line that fails ends the write; a line without its end is dropped.
    assert_eq!(refused(&mut it, &ctl, "id 5/5\nodd\nid 6/6\n"), "Invalid argument");
    write(&mut it, &ctl, "id 8/8");
    assert_eq!(read(&mut it, &format!("{at}/id")), "5/5");
    assert!(read(&mut it, "err").is_empty() || read(&mut it, "err").contains("line 2: \"odd\""));
    write(&mut it, &format!("{at}/argv"), "'");
    assert_eq!(refused(&mut it, &ctl, "exec /bin/true\n"), "Invalid argument");
    write(&mut it, &format!("{at}/env"), "=x");
    assert_eq!(refused(&mut it, &ctl, "exec /bin/true\n"), "Invalid argument");
    let long = refused(&mut it, &ctl, &"x".repeat(100_000));
    assert_eq!(long, "File too large");
}

#[test]
fn a_program_is_pushed_and_executed_with_its_directory() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let program = b"#!/bin/sh\ncat data; echo $LD_LIBRARY_PATH; pwd; echo $XCPUPATH\n";
    it.open_to_write(&format!("{at}/fs/xc")).unwrap();
    it.write_on(program).unwrap();
    it.close().unwrap();
    it.open_to_write(&format!("{at}/fs/data")).unwrap();
    it.write_on(b"the data\n").unwrap();
    it.close().unwrap();
    write(&mut it, &format!("{at}/ctl"), "exec\n");
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("0 exit 0 "));
    let out = read(&mut it, &format!("{at}/stdout"));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "the data");
    assert!(lines[1..].iter().all(|it| *it == lines[1]) && lines.len() == 4, "{out}");
    let folder = std::path::PathBuf::from(lines[1]);
    assert!(folder.join("xc").exists());
    assert_eq!(read(&mut it, &format!("{at}/fs/data")), "the data\n");
    for outside in ["fs/..x", "fs/link"] {
        assert!(it.stat(&format!("{at}/{outside}")).is_err());
    }
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
    assert!(it.read_while(&format!("{at}/fs/link"), |_| true).is_err());
    assert!(it.open_to_write(&format!("{at}/fs/link")).is_err());
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    assert!(!folder.exists());
}

#[test]
fn mode_time_and_name_of_a_file_are_changed_below_fs_and_nowhere_else() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    write(&mut it, &format!("{at}/argv"), "sh -c 'mkdir d; echo one >d/a; echo two >d/b'");
    write(&mut it, &format!("{at}/ctl"), "exec /bin/sh\n");
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("0 exit 0 "));
    let mut raw = Raw::attached_as(&served, &format!("#{}", rustix::process::geteuid().as_raw()));
    let walk = |fid: u32, path: &str, raw: &mut Raw| {
        let names: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        raw.ask(&Request::Walk { fid: 0, new: fid, names: [&[&*at], &names[..]].concat() });
    };
    for (fid, path) in [(1, "fs/d/a"), (2, "fs/d"), (3, "argv"), (4, "fs"), (5, "")] {
        walk(fid, path, &mut raw);
    }
    let change = |fid: u32, stat: Stat, raw: &mut Raw| {
        raw.send(7, &Request::WriteStat { fid, stat: Box::new(stat) });
        raw.reply()
    };
    let (same, changed) = (Stat::unchanged, "127");
    let mode = |mode: u32| Stat { mode, ..same() };
    let name = |name: &str| Stat { name: name.to_owned(), ..same() };
    assert_eq!(change(1, mode(0o751), &mut raw), changed);
    assert_eq!(it.stat(&format!("{at}/fs/d/a")).unwrap().mode, 0o751);
    assert_eq!(change(1, Stat { modified_s: 7, accessed_s: 7, ..same() }, &mut raw), changed);
    assert_eq!(it.stat(&format!("{at}/fs/d/a")).unwrap().modified_s, 7);
    // The fid of a file follows its name, and that of a directory above it.
    assert_eq!(change(1, name("c"), &mut raw), changed);
    let no_directory = Stat { mode: 0o755, ..name("e") };
    assert_eq!(change(2, no_directory, &mut raw), "error Operation not permitted");
    assert_eq!(change(2, name("e"), &mut raw), changed);
    raw.ask(&Request::Open { fid: 1, mode: 0 });
    assert_eq!(raw.read(1, 0), "one\n");
    let all = it.list(&format!("{at}/fs/e")).unwrap();
    assert_eq!(all.into_iter().map(|it| it.name).collect::<Vec<_>>(), ["b", "c"]);
    // No bit beside the nine, no name that is there, no path, and no other file.
    for (fid, stat, refused) in [
        (1, mode(0o4755), "error Operation not permitted"),
        (1, mode(0x8000_0000 | 0o755), "error Operation not permitted"),
        (1, name("b"), "error File exists"),
        (1, name("../b"), "error illegal path element"),
        (3, mode(0o644), "error Operation not permitted"),
        (3, name("other"), "error Operation not permitted"),
        (4, mode(0x8000_0000 | 0o777), "error Operation not permitted"),
        (5, mode(0x8000_0000 | 0o777), "error Operation not permitted"),
        (4, name("other"), "error Operation not permitted"),
        (1, Stat { user: "root".to_owned(), ..same() }, "error Operation not permitted"),
    ] {
        assert_eq!(change(fid, stat, &mut raw), refused, "{fid}");
    }
    assert_eq!(change(2, mode(0x8000_0000 | 0o750), &mut raw), changed);
    // All of a change is done, or nothing.
    let both = Stat { mode: 0o600, ..name("b") };
    assert_eq!(change(1, both, &mut raw), "error File exists");
    assert_eq!(it.stat(&format!("{at}/fs/e/c")).unwrap().mode, 0o751);
}

#[test]
fn a_stream_is_redirected_to_a_file_below_the_directory_only() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    write(&mut it, &format!("{at}/argv"), "echo text");
    write(&mut it, &format!("{at}/ctl"), "redirect stdout out\nexec /bin/echo\n");
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("0 exit 0 "));
    assert_eq!(read(&mut it, &format!("{at}/fs/out")), "text\n");
    assert_eq!(read(&mut it, &format!("{at}/stdout")), "");
    for path in ["../x", "/dev/null"] {
        let at = session(&mut it);
        let lines = format!("redirect stdout {path}\nexec /bin/echo\n");
        assert!(client_refuses(&mut it, &format!("{at}/ctl"), &lines));
    }
}

fn client_refuses(client: &mut Files, path: &str, text: &str) -> bool {
    matches!(client.write(path, text.as_bytes()), Err(ClientError::Refused(_)))
}

#[test]
fn a_wipe_ends_all_that_the_program_has_started() {
    let served = served();
    let mut it = own(&served);
    let mark = format!("98765.{}", std::process::id());
    let text = format!(
        "trap '' TERM; sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &); sleep {mark}"
    );
    let at = script(&mut it, &text);
    until(|| runs(&mark).then_some(()));
    let user = format!("#{}", rustix::process::geteuid().as_raw());
    let mut waiting = Raw::attached_as(&served, &user);
    waiting.open(1, &format!("{at}/wait"), 0);
    waiting.send(1, &Request::Read { fid: 1, offset: 0, count: 8000 });
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    assert!(!runs(&mark));
    let waited = waiting.content();
    assert!(waited.contains(" wiped ") || waited.is_empty(), "{waited}");
}

#[test]
fn the_sessions_of_a_service_end_with_it() {
    let mut served = served();
    let mark = format!("98764.{}", std::process::id());
    let mut it = own(&served);
    let at = script(&mut it, &format!("(setsid sleep {mark} &) ; sleep {mark}"));
    write(&mut it, &format!("{at}/ctl"), "type persistent\n");
    until(|| runs(&mark).then_some(()));
    served.kill();
    until(|| (!runs(&mark)).then_some(()));
}

#[test]
fn a_service_that_ends_leaves_no_directory_of_a_session() {
    let mut served = served();
    let mut it = own(&served);
    let at = script(&mut it, "echo $XCPUPATH; sleep 98763");
    let mut folder = String::new();
    let first = it.read_while(&format!("{at}/stdout"), |bytes| {
        folder.push_str(std::str::from_utf8(bytes).unwrap());
        !folder.ends_with('\n')
    });
    first.unwrap();
    let folder = std::path::PathBuf::from(folder.trim_end());
    assert!(folder.is_dir());
    served.signal(rustix::process::Signal::TERM);
    served.ends();
    assert!(!folder.exists() && !runs("sleep 98763"));
}

#[test]
fn a_full_output_without_a_reader_stops_the_program_and_loses_nothing() {
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "head -c 3000000 /dev/zero | tr '\\0' x; echo end");
    let mut count = 0_usize;
    let mut last = Vec::new();
    let read = it.read_while(&format!("{at}/stdout"), |bytes| {
        count += bytes.len();
        last = bytes.to_vec();
        true
    });
    read.unwrap();
    assert_eq!(count, 3_000_004);
    assert!(last.ends_with(b"end\n"));
}

#[test]
fn commands_write_files_and_run_a_session() {
    let served = served();
    let files = |words: &str, input: &str| {
        let mut it = served.command(words);
        it.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = it.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let at = output(served.command("files cat clone"));
    let done = |words: String, input: &str| {
        let output = files(&words, input);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    done(format!("files write {at}/fs/xc"), "#!/bin/sh\ntr a-z A-Z; exit 5\n");
    done(format!("files write {at}/argv"), "xc");
    done(format!("files write {at}/ctl"), "exec xc\n");
    done(format!("files write {at}/stdin"), "hello\n");
    done(format!("files write {at}/ctl"), "close stdin\n");
    assert_eq!(output(served.command(&format!("files cat {at}/stdout"))), "HELLO\n");
    assert!(output(served.command(&format!("files cat {at}/wait"))).starts_with("5 exit 5 "));
    let refused = files(&format!("files write {at}/ctl"), "odd\n");
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("Invalid argument: line 1: \"odd\" is no command"), "{error}");
    done(format!("files write {at}/ctl"), "wipe\n");
}

#[test]
fn root_a_program_is_that_of_the_authenticated_user_and_no_other_enters() {
    if !able("root_a_program_is_that_of_the_authenticated_user_and_no_other_enters") {
        return;
    }
    let served = Served::started("[files]\nexecute = [\"@4343\"]\n", monitor(), "procfs");
    let at = as_user(&[4343], || {
        let mut it = attach(&served, "");
        let at = script(
            &mut it,
            "id -u; id -g; id -G; env | grep -c . ; grep NoNewPrivs /proc/self/status; cat",
        );
        let ctl = format!("{at}/ctl");
        write(&mut it, &ctl, "type persistent\nclose stdin\n");
        let out = read(&mut it, &format!("{at}/stdout"));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..2], [USER.to_string(), USER.to_string()], "{out}");
        assert!(lines[2].split(' ').all(|it| it == "4343" || it == USER.to_string()), "{out}");
        // PATH, PWD and the six of the session.
        assert_eq!(lines[3..5], ["8", "NoNewPrivs:\t1"], "{out}");
        at
    });
    // The same user without the group opens none, but has its own.
    as_user(&[], || {
        let mut it = attach(&served, "");
        assert!(it.read_while("clone", |_| true).is_err());
        assert!(read(&mut it, &format!("{at}/wait")).starts_with("0 exit 0 "));
        // Nor does none.
        let mut none = attach(&served, "none");
        assert!(none.read_while("clone", |_| true).is_err());
        assert!(none.read_while(&format!("{at}/stdout"), |_| true).is_err());
        assert!(client_refuses(&mut none, &format!("{at}/ctl"), "wipe\n"));
        assert!(UnixStream::connect(path(&served)).is_ok());
    });
    // Root is in no group of the list, but sees sessions.
    let mut root = attach(&served, "root");
    assert!(root.read_while("clone", |_| true).is_err());
    write(&mut root, &format!("{at}/ctl"), "wipe\n");
}

#[test]
fn root_a_session_is_limited_where_a_cgroup_can_be_made() {
    if !able("root_a_session_is_limited_where_a_cgroup_can_be_made") {
        return;
    }
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    let limited = it.write(&format!("{at}/ctl"), b"limit pids 3\n");
    if let Err(ClientError::Refused(why)) = limited {
        // No controller is delegated to the tests.
        assert_eq!(why, "Operation not permitted");
        return;
    }
    let text = "for i in 1 2 3 4 5 6; do sleep 60 & done; echo made";
    write(&mut it, &format!("{at}/argv"), &format!("sh -c '{text}'"));
    write(&mut it, &format!("{at}/ctl"), "exec /bin/sh\n");
    until(|| read_error(&served, &at).contains("fork").then_some(()));
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
}

/// What is in the error output so far: its end is that of the processes that have it.
fn read_error(served: &Served, at: &str) -> String {
    let mut text = Vec::new();
    let _some = own(served).read_while(&format!("{at}/stderr"), |bytes| {
        text.extend_from_slice(bytes);
        false
    });
    String::from_utf8_lossy(&text).into_owned()
}
