//! The kernel's client of 9P: a mount, with the scenario of all clients, other nodes, events for a
//! shell, and readers that are killed.
//!
//! In a machine of the tests alone, because a mount can hang: `cargo xtask vm`.

use super::files::{output, own, path, read};
use super::files_clients::{TreeClient, WANT, play};
use super::files_session::{Files, script, write};
use super::files_session_monitor::served;
use crate::deadline::until;
use crate::guardian::OWN_MACHINE;
use crate::root::privilege::able;
use crate::served::{Folder, Served};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A mount by the kernel's client.
struct Mount(Folder);

impl Mount {
    fn new(served: &Served) -> Self {
        let it = Self(Folder::new());
        let options = "trans=unix,version=9p2000,access=any,cache=none,uname=root";
        let mut mount = Command::new("mount");
        mount.args(["-t", "9p", "-o", options]).arg(path(served)).arg(it.0.path());
        let _text = output(mount);
        it
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ended = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Files below a mount.
struct Mounted {
    root: PathBuf,
    kept: Vec<File>,
}

impl TreeClient for Mounted {
    fn keep(&mut self, path: &str, bytes: u32) -> Result<Vec<u8>, String> {
        let mut file = File::open(self.root.join(path)).map_err(|error| error.to_string())?;
        let mut first = Vec::new();
        let _bytes = (&mut file)
            .take(bytes.into())
            .read_to_end(&mut first)
            .map_err(|error| error.to_string())?;
        self.kept.push(file);
        Ok(first)
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root.join(path)).map_err(|error| error.to_string())
    }

    fn write(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        let write = || {
            let mut file = File::options().write(true).open(self.root.join(path))?;
            file.write_all(data)
        };
        write().map_err(|error: io::Error| error.to_string())
    }

    fn push(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        // As cp(1) does; the mode of a file that is there cannot be changed.
        let create = || {
            let mut options = File::options();
            let mut file =
                options.write(true).create_new(true).mode(0o755).open(self.root.join(path))?;
            file.write_all(data)
        };
        create().map_err(|error: io::Error| error.to_string())
    }
}

/// Whether there is a kernel to mount with, in a machine of the tests; otherwise says so.
fn can_mount(test: &str) -> bool {
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap();
    if std::env::var_os(OWN_MACHINE).is_none() || !filesystems.contains("\t9p\n") {
        println!("only where this machine is the tests' own ({OWN_MACHINE}) and has 9p");
        return false;
    }
    able(test)
}

/// A command of a shell in the root of a mount, with its output in a file.
struct Shell(Child);

impl Shell {
    fn start(mount: &Mount, command: &str, into: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(mount.0.path()).stdin(Stdio::null());
        Self(shell.stdout(File::create(into).unwrap()).spawn().unwrap())
    }

    /// Kills it while it waits; it ends, though the read has no reply.
    fn kill(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::KILL).unwrap();
        until(|| self.0.try_wait().unwrap());
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Waits until a process sleeps in a call of the client of 9P.
fn waits_for_reply(pid: u32) {
    until(|| {
        let stack = fs::read_to_string(format!("/proc/{pid}/stack")).unwrap_or_default();
        stack.contains("p9_client_rpc").then_some(())
    });
}

fn set_state(client: &mut Files, state: &str) {
    client.open_to_write("state").unwrap();
    client.write_on(state.as_bytes()).unwrap();
    client.close().unwrap();
}

#[test]
fn root_a_mount_of_the_kernel_runs_a_session() {
    if !can_mount("root_a_mount_of_the_kernel_runs_a_session") {
        return;
    }
    let served = served();
    let mount = Mount::new(&served);
    let root = mount.0.path().to_path_buf();
    let connect = || Box::new(Mounted { root: root.clone(), kept: Vec::new() }) as Box<_>;
    assert_eq!(play(&connect), WANT);
    let left =
        fs::read_dir(&root).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|it| it.parse::<u32>().is_ok()).count(), 0, "sessions are left");
}

/// Events that a shell must have.
const EVENTS: usize = 23;

#[test]
fn root_a_shell_on_a_mount_misses_no_event_and_no_change() {
    if !can_mount("root_a_shell_on_a_mount_misses_no_event_and_no_change") {
        return;
    }
    let other = Served::with("");
    let config = format!("[files]\nnodes = [\"n1={}\"]\n", path(&other).display());
    let (served, folder) = (Served::with(&config), Folder::new());
    let (mount, mut it) = (Mount::new(&served), own(&served));
    let at = |name: &str| mount.0.path().join(name);
    until(|| (fs::read_to_string(at("nodes/n1/state")).unwrap() == "up\n").then_some(()));
    let state = fs::read_to_string(at("nodes/state")).unwrap();
    let columns: Vec<&str> = state.trim_end().split('\t').collect();
    assert_eq!((columns[0], columns[3], columns.len()), ("n1", "up", 6), "{state}");
    let names = fs::read_dir(at("nodes/n1")).unwrap().count();
    assert_eq!(names, 6);
    // A shell has each event, and a kill of the one that reads is no end of the others.
    let (events, changes) = (folder.join("events"), folder.join("changes"));
    let loop_of = |file: &str| format!("while cat {file}; do :; done");
    let _shell = Shell::start(&mount, &loop_of("mon/event"), &events);
    let _notified = Shell::start(&mount, &loop_of("nodes/notify"), &changes);
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    // Both wait when something is there.
    until(|| {
        set_state(&mut it, "begins");
        set_state(&mut it, "");
        text(&events).contains("(state begins)").then_some(())
    });
    let killed = Shell::start(&mount, "exec cat mon/event", &folder.join("killed"));
    waits_for_reply(killed.0.id());
    killed.kill();
    for number in 0..EVENTS {
        set_state(&mut it, &format!("number-{number}"));
    }
    let last = format!("(state number-{})", EVENTS - 1);
    until(|| text(&events).contains(&last).then_some(()));
    // Each is set after its content was removed, which is an event too.
    let number = |line: &str| line.split_once("number-")?.1.split(')').next()?.parse().ok();
    // One may come twice, because two readers have closed the file at a time.
    let seen: BTreeSet<usize> = text(&events).lines().filter_map(number).collect();
    assert_eq!(seen, (0..EVENTS).collect(), "{}", text(&events));
    set_state(&mut own(&other), "in repair");
    until(|| text(&changes).contains("n1 up in_repair ").then_some(()));
    assert_eq!(text(&changes).matches("n1 up in_repair ").count(), 1);
}

#[test]
fn root_a_reader_on_a_mount_that_is_killed_takes_nothing_with_it() {
    if !can_mount("root_a_reader_on_a_mount_that_is_killed_takes_nothing_with_it") {
        return;
    }
    let (served, folder) = (served(), Folder::new());
    let (mount, mut it) = (Mount::new(&served), own(&served));
    let session = script(&mut it, "cat");
    for round in 0..3 {
        for file in ["stdout", "wait"] {
            let command = format!("exec cat {session}/{file}");
            let reader = Shell::start(&mount, &command, &folder.join("killed"));
            waits_for_reply(reader.0.id());
            reader.kill();
        }
        write(&mut it, &format!("{session}/stdin"), &format!("line {round}\n"));
    }
    write(&mut it, &format!("{session}/ctl"), "close stdin\n");
    let seen = fs::read_to_string(mount.0.path().join(&session).join("stdout")).unwrap();
    assert_eq!(seen, "line 0\nline 1\nline 2\n");
    assert!(read(&mut it, &format!("{session}/wait")).starts_with("0 exit 0 "));
    // The mount is of use afterwards.
    assert!(fs::read_to_string(mount.0.path().join("arch")).unwrap().starts_with("/Linux/"));
}
