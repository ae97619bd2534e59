//! Files that users name: they cost the service nothing, and a file system that never replies holds
//! up its user alone.

use super::privilege::{granted, skip};
use super::workload::Guarded;
use crate::deadline::until;
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that owns nothing else.
const UID: u32 = 47_003;
/// What a file may cost the service, in KiB.
const BOUND_KIB: u64 = 64 << 10;
/// What it may cost the process that reads it, in KiB.
const READER_BOUND_KIB: u64 = 256 << 10;
/// Requests of another user meanwhile.
const MEANWHILE: usize = 100;
/// The descriptor of the file that `mapper` has open.
const DESCRIPTOR: u32 = 100;

/// The service, where the user may control its own processes.
fn service() -> Served {
    // Loading the rules is charged to the user of the first request.
    let limits = "[limits]\nprocessor = \"100%\"\n";
    let config = format!("{limits}[policy]\ncontrol-own = [\"{UID}\"]\n");
    Served::started(&config, monitor(), "ebpf")
}

/// Maps its first argument as code.
const MAPPER: &str = "import mmap, os, sys\n\
                      fd = os.dup2(os.open(sys.argv[1], os.O_RDONLY), 100)\n\
                      code = mmap.PROT_READ | mmap.PROT_EXEC\n\
                      held = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=code)\n\
                      held[0]\n\
                      print('ready', flush=True)\n\
                      sys.stdin.readline()\n";

/// A process of the user that has mapped a file as code.
fn mapper(path: &Path) -> Guarded {
    let mut command = Command::new("python3");
    let mut it = Guarded::run(command.args(["-c", MAPPER]).arg(path).uid(UID).gid(UID));
    assert_eq!(it.line(), "ready");
    it
}

/// The user asks for calls of a function in its process.
fn asks_for_calls(served: &Served, target: &Guarded, function: &str) -> Child {
    let pid = target.pid().0;
    asks(served, target, &format!("1 [0] start_lib_call([{pid}],\"{function}\"): 2 [0] print(1)"))
}

/// The user sends a request about its process.
fn asks(served: &Served, target: &Guarded, request: &str) -> Child {
    let mut command = served.command(&format!("ask --pid {}", target.pid().0));
    command.arg(request).uid(UID).gid(UID).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The process of the user that reads for the service, once there is one.
fn reader(served: &Served) -> Option<u32> {
    let children = format!("/proc/{0}/task", served.pid());
    let tasks = fs::read_dir(children).unwrap().flatten();
    let children = tasks.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let uid = format!("Uid:\t{UID}\t");
    let children = children.collect::<String>();
    let is_it = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains(&uid))
    };
    children.split_whitespace().find(is_it).and_then(|pid| pid.parse().ok())
}

/// What was seen while a request was handled.
#[derive(Debug, Default)]
struct Meanwhile {
    /// Requests of another user that were replied to.
    requests: usize,
    /// The longest of them.
    longest: Duration,
    /// The most that the reader had resident, in KiB.
    reader_kib: u64,
    /// The most descriptors that the service had open.
    descriptors: usize,
}

/// The reply, and what was seen while another user sent requests about its process.
fn beside(
    mut asking: Child,
    served: &Served,
    (session, pid): (&mut SocketSession, u32),
) -> (String, Meanwhile) {
    let mut seen = Meanwhile::default();
    until(|| {
        let begin = Instant::now();
        let line = session.request(&format!("3 [0] process_info([{pid}],1)"));
        assert!(line.starts_with("3 [0] process_info(0,"), "{line}");
        seen.requests += 1;
        seen.longest = seen.longest.max(begin.elapsed());
        seen.reader_kib = seen.reader_kib.max(reader(served).and_then(peak_kib).unwrap_or(0));
        seen.descriptors = seen.descriptors.max(served.descriptors());
        asking.try_wait().unwrap()
    });
    (reply(asking), seen)
}

fn reply(asking: Child) -> String {
    let output = asking.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A file system in user space with one file.
struct UserFileSystem {
    server: Guarded,
    folder: PathBuf,
}

impl UserFileSystem {
    /// Its file is a library with a function of 32 letters P. None where the kernel mounts none.
    fn mount(test: &str, folder: &Folder) -> Option<Self> {
        let library = folder.join("library");
        // The code of the function is its name: push rax.
        crafted(&library, &[&[b'P'; 32][..], b"\0"].concat(), 1);
        let folder = folder.join("mounted");
        fs::create_dir(&folder).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixture/fuse/one_file.py");
        let mut command = Command::new("python3");
        let mut server = Guarded::run(command.arg(script).arg(&folder).arg(&library));
        let is_mounted = server.line() == "ready";
        if !is_mounted {
            skip(test, "needs /dev/fuse");
        }
        is_mounted.then_some(Self { server, folder })
    }

    fn file(&self) -> PathBuf {
        self.folder.join("lib.so")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.server.pid().0).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for UserFileSystem {
    fn drop(&mut self) {
        // Without its server, nothing waits for it any more.
        let _ = self.server.0.kill();
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

#[test]
fn root_a_file_system_that_does_not_reply_holds_up_its_user_alone() {
    const TEST: &str = "root_a_file_system_that_does_not_reply_holds_up_its_user_alone";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(mounted) = UserFileSystem::mount(TEST, &folder) else { return };
    let target = mapper(&mounted.file());
    // Ends before the process that waits for it.
    let mounted = mounted;
    let mut served = service();
    let own = Guarded::sh("echo ready; read line");
    let mut session = served.connect();
    let pid = own.pid().0;
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    mounted.signal(Signal::STOP);
    let mut asking = asks_for_calls(&served, &target, "nothing_here");
    // Its reader waits for the file system.
    until(|| reader(&served));
    let begin = Instant::now();
    for n in 0..MEANWHILE {
        let event = format!("{} [0] start_lib_call", n + 10);
        let line = session.request(&format!("{event}([{pid}],\"libc:getpid\"): 1 [0] print(1)"));
        assert_eq!(line, format!("{event}(0)"));
    }
    println!("{MEANWHILE} requests of another user took {:?}", begin.elapsed());
    assert_eq!(asking.try_wait().unwrap(), None, "the other requests did not wait for it");
    let begin = Instant::now();
    let refused = reply(asking);
    println!("after {:?}: {refused}", begin.elapsed());
    assert!(refused.contains("cannot be read") && refused.contains("8 s"), "{refused}");
    // It ends at once also while a reader waits.
    let asking = asks_for_calls(&served, &target, "nothing_else");
    until(|| reader(&served));
    let begin = Instant::now();
    served.signal(Signal::TERM);
    served.ends();
    println!("it ended after {:?}", begin.elapsed());
    let lost = reply(asking);
    assert!(!lost.contains("cannot be read"), "it did not wait for the reader: {lost}");
}

#[test]
fn root_no_service_waits_for_a_file_system_that_does_not_reply() {
    const TEST: &str = "root_no_service_waits_for_a_file_system_that_does_not_reply";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(mounted) = UserFileSystem::mount(TEST, &folder) else { return };
    let target = mapper(&mounted.file());
    let mounted = mounted;
    let served = service();
    let own = Guarded::sh("echo ready; read line");
    let (mut session, pid) = (served.connect(), own.pid().0);
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    mounted.signal(Signal::STOP);
    let named = target.pid().0;
    let services = [
        format!("queue_info({named},7)"),
        format!("tag_message({named},0,5)"),
        format!("pio_layout({named},{DESCRIPTOR})"),
    ];
    for service in services {
        let asking = asks(&served, &target, &format!("2 [0] {service}"));
        let (refused, meanwhile) = beside(asking, &served, (&mut session, pid));
        println!("{service}: {meanwhile:?}: {}", refused.trim());
        assert!(refused.contains("8 s") || refused.contains("in user space"), "{refused}");
        assert!(meanwhile.requests > 1, "another user waited for it");
    }
}

#[test]
fn root_no_probe_is_set_where_the_kernel_would_wait_for_a_process_of_a_user() {
    const TEST: &str = "root_no_probe_is_set_where_the_kernel_would_wait_for_a_process_of_a_user";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(mounted) = UserFileSystem::mount(TEST, &folder) else { return };
    let target = mapper(&mounted.file());
    let served = service();
    let refused = reply(asks_for_calls(&served, &target, &format!("lib.so:{}", "P".repeat(32))));
    assert!(refused.contains("its file system is in user space"), "{refused}");
}

#[test]
fn root_an_overlay_of_a_user_does_not_hide_its_file_system() {
    const TEST: &str = "root_an_overlay_of_a_user_does_not_hide_its_file_system";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(mounted) = UserFileSystem::mount(TEST, &folder) else { return };
    let (above, empty) = (folder.join("above"), folder.join("empty"));
    fs::create_dir(&above).unwrap();
    fs::create_dir(&empty).unwrap();
    let script = "mount -t overlay x -o lowerdir=$1:$2 $3 && exec python3 -c \"$4\" $3/lib.so";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.args([&mounted.folder, &empty, &above]).arg(MAPPER);
    let mut target = Guarded::run(&mut command);
    if target.line() != "ready" {
        return skip(TEST, "needs an overlay above FUSE in a user namespace");
    }
    let served = service();
    let request = format!("lib.so:{}", "P".repeat(32));
    let request =
        format!("1 [0] start_lib_call([{}],\"{request}\"): 2 [0] print(1)", target.pid().0);
    let mut command = served.command(&format!("ask --pid {}", target.pid().0));
    let refused = String::from_utf8(command.arg(request).output().unwrap().stdout).unwrap();
    assert!(refused.contains("its file system is in user space"), "{refused}");
}

/// An ELF file with a segment of code, these strings, and functions all of which have the name at
/// the beginning of the strings.
fn crafted(path: &Path, strings: &[u8], n_symbols: usize) {
    let words = |values: &[u64]| values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    let (strings_at, length) = (64 + 56_u64, strings.len() as u64);
    let symbols_at = strings_at + length;
    let sections_at = symbols_at + 24 * n_symbols as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    // A shared library for x86-64, version 1; its headers.
    bytes.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    bytes.extend(words(&[0, 64, sections_at]));
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 2, 0, 0, 0]);
    // PT_LOAD, readable and executable: the whole file.
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    bytes.extend(words(&[0, 0, 0, sections_at, sections_at, 4096]));
    bytes.extend(strings);
    for _ in 0..n_symbols {
        // A global function.
        bytes.extend([0, 0, 0, 0, 0x12, 0, 1, 0]);
        bytes.extend(words(&[120, 16]));
    }
    // SHT_STRTAB, and SHT_DYNSYM that refers to it as section 0.
    bytes.extend(words(&[3 << 32, 0, 0, strings_at, length, 0, 1, 0]));
    bytes.extend(words(&[11 << 32, 0, 0, symbols_at, 24 * n_symbols as u64, 0, 8, 24]));
    fs::write(path, bytes).unwrap();
}

/// The most that was resident, in KiB; nothing once it has ended.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn root_crafted_files_are_refused_and_cost_the_service_nothing() {
    if !granted("root_crafted_files_are_refused_and_cost_the_service_nothing") {
        return;
    }
    let folder = Folder::new();
    let served = service();
    let mut shared = vec![b'x'; 8 << 20];
    shared.push(0);
    let endless = vec![b'x'; 12 << 20];
    let files = [("shared.so", &shared, 2_000), ("endless.so", &endless, 400_000)];
    // The first request opens the kernel's rules, which costs memory once.
    let plain = folder.join("plain.so");
    crafted(&plain, b"plain\0", 1);
    let target = mapper(&plain);
    let _refused = reply(asks_for_calls(&served, &target, "plain.so:absent"));
    let idle = peak_kib(served.pid()).unwrap();
    let own = Guarded::sh("echo ready; read line");
    let (mut session, pid) = (served.connect(), own.pid().0);
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    for (name, strings, n_symbols) in files {
        let path = folder.join(name);
        crafted(&path, strings, n_symbols);
        let target = mapper(&path);
        for function in ["absent", &"x".repeat(64)] {
            let begin = Instant::now();
            let asking = asks_for_calls(&served, &target, &format!("{name}:{function}"));
            let (refused, meanwhile) = beside(asking, &served, (&mut session, pid));
            let took = begin.elapsed();
            let more = peak_kib(served.pid()).unwrap() - idle;
            println!("{name}: {more} KiB more after {took:?}: {meanwhile:?}: {}", refused.trim());
            let of_reader = meanwhile.reader_kib;
            assert!((1..=READER_BOUND_KIB).contains(&of_reader), "{of_reader} KiB");
            assert!(refused.contains("start_lib_call("), "{refused}");
            assert!(!refused.contains("start_lib_call(0)"), "{refused}");
            assert!(!refused.contains("no reply within"), "{refused}");
            assert!(more <= BOUND_KIB, "{more} KiB");
        }
    }
}

#[test]
fn root_a_library_that_is_a_pipe_by_now_is_not_waited_for() {
    if !granted("root_a_library_that_is_a_pipe_by_now_is_not_waited_for") {
        return;
    }
    let folder = Folder::new();
    let path = folder.join("piped.so");
    crafted(&path, b"plain\0", 1);
    let target = mapper(&path);
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let served = service();
    let refused = reply(asks_for_calls(&served, &target, "piped.so:absent"));
    assert!(refused.contains("start_lib_call("), "{refused}");
    assert!(!refused.contains("no reply within"), "{refused}");
}

#[test]
fn root_a_process_with_25000_mapped_files_takes_no_descriptors_of_the_service() {
    const TEST: &str = "root_a_process_with_25000_mapped_files_takes_no_descriptors_of_the_service";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    std::os::unix::fs::chown(folder.path(), Some(UID), Some(UID)).unwrap();
    // The module mmap would keep a descriptor for each mapping.
    let program = "import ctypes, os, sys\n\
                   map = ctypes.CDLL(None).mmap\n\
                   map.restype = ctypes.c_void_p\n\
                   map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, \
                   ctypes.c_long]\n\
                   for n in range(25000):\n\
                   \x20   fd = os.open(f'{sys.argv[1]}/{n}.so', os.O_RDWR | os.O_CREAT)\n\
                   \x20   os.write(fd, b'x')\n\
                   \x20   assert map(None, 4096, 5, 2, fd, 0) < 1 << 63\n\
                   \x20   os.close(fd)\n\
                   print('ready', flush=True)\n\
                   sys.stdin.readline()\n";
    let mut command = Command::new("python3");
    let mut target =
        Guarded::run(command.args(["-c", program]).arg(folder.path()).uid(UID).gid(UID));
    assert_eq!(target.line(), "ready");
    let served = service();
    let plain = folder.join("plain.so");
    crafted(&plain, b"plain\0", 1);
    let _refused = reply(asks_for_calls(&served, &mapper(&plain), "plain.so:absent"));
    let idle = served.descriptors();
    let own = Guarded::sh("read line");
    let (mut session, pid) = (served.connect(), own.pid().0);
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    let asking = asks_for_calls(&served, &target, "absent");
    let (refused, meanwhile) = beside(asking, &served, (&mut session, pid));
    println!("{idle} descriptors when idle: {meanwhile:?}: {}", refused.trim());
    let most = meanwhile.descriptors;
    assert!(refused.contains("mapped more files than are searched"), "{refused}");
    assert!(most < idle + 256, "{most} descriptors, {idle} when idle");
}
