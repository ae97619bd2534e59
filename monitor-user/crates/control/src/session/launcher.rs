//! The main loop of a launcher: `monitor user-worker --launcher`, started by the service.
//!
//! In: commands as frames on standard input. Out: answers. It has the rights of its user and no
//! others, and neither it nor what it starts can get more. When the socket closes, all descendants
//! are ended and the directory of the session is removed.

use super::descendants;
use super::error::{Refusal, SessionError};
use super::message::{Ending, LaunchAnswer, LaunchCommand, LaunchedProgram};
use crate::user_worker::User;
use crate::user_worker::frame::{CHUNK, Inbox, frame};
use crate::user_worker::main::become_user;
use monitor_model::Pid;
use monitor_sys::{service_settings, spawn, wait};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The command name of this process, by which the job of its program is found.
const PROGRAM: &CStr = c"monitor-session";
/// How long the program may take to end after `SIGTERM`, before all is killed.
const GRACE: Duration = Duration::from_millis(500);
/// How long all may take to end after `SIGKILL`: only a kernel call that nothing interrupts does.
const KILL_TIME: Duration = Duration::from_secs(2);
/// The pause in which the end of the program is awaited.
const LOOK: Duration = Duration::from_millis(5);
/// How often a program is tried whose file is being written, and the pause between.
const BUSY_TRIES: (usize, Duration) = (5, Duration::from_millis(10));

/// Carries out commands until the socket closes, then ends all that it has started.
///
/// # Errors
///
/// When it cannot become its user, or the socket fails.
pub fn run(socket: UnixStream, user: Option<&User>) -> io::Result<()> {
    service_settings::give_up()?;
    match user {
        Some(user) => become_user(user)?,
        None if !rustix::process::geteuid().is_root() => give_up_capabilities()?,
        None => {}
    }
    let _named = rustix::thread::set_name(PROGRAM);
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _already = rustix::process::setsid();
    let _former = rustix::process::umask(Mode::from_raw_mode(0o022));
    let mut launcher = LauncherLoop {
        socket,
        inbox: Inbox::default(),
        signals: signals()?,
        folder: None,
        streams: None,
        main: None,
    };
    let served = launcher.serve();
    launcher.end_all();
    match served {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// A program of the service's own user has none of the service's capabilities.
fn give_up_capabilities() -> io::Result<()> {
    let _unknown = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

struct LauncherLoop {
    socket: UnixStream,
    inbox: Inbox,
    signals: SignalFd,
    folder: Option<PathBuf>,
    /// The ends of the pipes, until a program has them.
    streams: Option<[OwnedFd; 3]>,
    main: Option<MainProgram>,
}

/// The program of the session.
struct MainProgram {
    pid: Pid,
    began: Instant,
    has_ended: bool,
}

fn signals() -> io::Result<SignalFd> {
    let set: SigSet =
        [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

impl LauncherLoop {
    fn serve(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        loop {
            let (has_commands, has_signals) = self.wait()?;
            if has_signals && self.must_exit()? {
                return Ok(());
            }
            self.reap()?;
            if has_commands && !self.receive()? {
                return Ok(());
            }
            while let Some(command) = self.inbox.next_message::<LaunchCommand>()? {
                let answer = match command {
                    LaunchCommand::Wipe => return Ok(()),
                    LaunchCommand::Begin(folder) => {
                        self.folder = Some(folder);
                        continue;
                    }
                    LaunchCommand::Exec(program) => self.execute(&program),
                    LaunchCommand::Signal(number) => self.signal(number),
                };
                self.answer(&answer.unwrap_or_else(LaunchAnswer::Refused))?;
            }
        }
    }

    fn wait(&self) -> io::Result<(bool, bool)> {
        let mut fds =
            [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => Err(error.into()),
        }
    }

    fn must_exit(&self) -> io::Result<bool> {
        let mut ends = false;
        while let Some(signal) = self.signals.read_signal()? {
            ends |= i32::try_from(signal.ssi_signo) != Ok(Signal::SIGCHLD as i32);
        }
        Ok(ends)
    }

    /// Receives, with the descriptors of the first command; `false` once the service has closed.
    fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let mut parts = [IoSliceMut::new(&mut chunk)];
        let got = recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let fds = ancillary.drain().filter_map(|it| match it {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds: Vec<OwnedFd> = fds.flatten().collect();
        if let Ok(streams) = <[OwnedFd; 3]>::try_from(fds) {
            self.streams = Some(streams);
        }
        self.inbox.add(&chunk[..got.bytes]);
        Ok(got.bytes > 0)
    }

    fn answer(&mut self, answer: &LaunchAnswer) -> io::Result<()> {
        self.socket.write_all(&frame(answer)?)
    }

    fn execute(&mut self, program: &LaunchedProgram) -> Result<LaunchAnswer, SessionError> {
        if self.main.is_some() {
            let why = "the program of the session was executed: open another session";
            return Err(SessionError::new(Refusal::Busy, why));
        }
        let folder = self.folder.as_deref().unwrap_or(Path::new("/"));
        let file = existing(&program.files);
        let mut command = Command::new(file);
        let words = |it: &Vec<u8>| OsStr::from_bytes(it).to_owned();
        let (name, rest) = program
            .arguments
            .split_first()
            .map_or((None, &[][..]), |(name, it)| (Some(words(name)), it));
        command.args(rest.iter().map(words)).env_clear();
        command.arg0(name.unwrap_or_default());
        command.envs(program.environment.iter().map(|(name, value)| (words(name), words(value))));
        command.current_dir(program.folder.as_deref().unwrap_or(folder)).process_group(0);
        let [input, output, error] = self.program_streams(program, folder)?;
        command.stdin(input).stdout(output).stderr(error);
        spawn::default_signals(&mut command);
        spawn::end_with_parent(&mut command);
        let began = Instant::now();
        let child = spawn_when_written(&mut command)
            .map_err(|why| SessionError::kernel(&format!("executing {}", file.display()), &why))?;
        // Its output ends when the last process that has the other ends does.
        self.streams = None;
        let pid = Pid(child.id());
        self.main = Some(MainProgram { pid, began, has_ended: false });
        Ok(LaunchAnswer::Started(pid.0))
    }

    /// The streams: the pipes, or files below the directory.
    fn program_streams(
        &self,
        program: &LaunchedProgram,
        folder: &Path,
    ) -> Result<[Stdio; 3], SessionError> {
        let pipe = |at: usize| -> io::Result<Stdio> {
            let streams = self.streams.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(Stdio::from(streams[at].try_clone()?))
        };
        let stream = |at: usize| match &program.redirects[at] {
            None => pipe(at).map_err(|why| SessionError::kernel("a pipe", &why)),
            Some(path) => redirected(folder, path, at == 0).map(Stdio::from),
        };
        Ok([stream(0)?, stream(1)?, stream(2)?])
    }

    fn signal(&self, number: i32) -> Result<LaunchAnswer, SessionError> {
        let running = self.main.as_ref().filter(|it| !it.has_ended);
        let Some(main) = running else {
            return Err(SessionError::new(Refusal::NoProcess, "no program runs in this session"));
        };
        // It is a child that was not reaped, so the number is its own.
        let sent = signal_process(main.pid, number);
        sent.map(|()| LaunchAnswer::Done).map_err(|why| SessionError::kernel("signal", &why))
    }

    /// Reaps all that have ended, and reports the end of the program.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, status, usage)) = wait::reap_any() {
            let Some(main) = self.main.as_mut().filter(|it| it.pid == pid) else { continue };
            main.has_ended = true;
            let ms = |ns: u64| ns / 1_000_000;
            let ending = Ending {
                code: status.code(),
                signal: status.signal(),
                user_ms: ms(usage.user.0),
                system_ms: ms(usage.system.0),
                real_ms: u64::try_from(main.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                max_rss_kib: usage.peak_rss_bytes.unwrap_or(0) / 1024,
            };
            self.answer(&LaunchAnswer::Ended(ending))?;
        }
        Ok(())
    }

    /// Ends the program, then all descendants, and removes the directory.
    fn end_all(&mut self) {
        // The service may not read its end any longer; that changes nothing.
        let _unread = self.socket.set_nonblocking(true);
        if let Some(main) = self.main.as_ref().filter(|it| !it.has_ended) {
            let _ended = signal_process(main.pid, Signal::SIGTERM as i32);
            let until = Instant::now() + GRACE;
            while Instant::now() < until && self.main.as_ref().is_some_and(|it| !it.has_ended) {
                let _unread = self.reap();
                std::thread::sleep(LOOK);
            }
        }
        let _left = descendants::kill_all(Instant::now() + KILL_TIME, || {
            let _unread = self.reap();
        });
        if let Some(folder) = self.folder.take() {
            // What cannot be removed is the user's own doing.
            let _left = std::fs::remove_dir_all(folder);
        }
    }
}

/// The first of these files that exists, or the first.
fn existing(files: &[PathBuf]) -> &Path {
    let found = files.iter().find(|it| it.exists()).or(files.first());
    found.map_or(Path::new("/"), PathBuf::as_path)
}

/// A file is busy while a process has it open for writing, such as one that was just forked by the
/// service that has written it (execve(2), ETXTBSY).
fn spawn_when_written(command: &mut Command) -> io::Result<std::process::Child> {
    let (tries, pause) = BUSY_TRIES;
    for _ in 1..tries {
        match command.spawn() {
            Err(why) if why.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(pause)
            }
            other => return other,
        }
    }
    command.spawn()
}

fn signal_process(pid: Pid, number: i32) -> io::Result<()> {
    monitor_sys::pidfd::PidFd::open(pid)?.signal(number.cast_unsigned())
}

/// A file below the directory, for a stream.
fn redirected(folder: &Path, path: &[u8], is_input: bool) -> Result<File, SessionError> {
    let failed = |error: rustix::io::Errno| {
        let shown = String::from_utf8_lossy(path).into_owned();
        SessionError::kernel(&format!("redirecting to {shown}"), &error.into())
    };
    let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let (flags, mode) = match is_input {
        true => (flags | OFlags::RDONLY, Mode::empty()),
        false => {
            (flags | OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, Mode::from_raw_mode(0o600))
        }
    };
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder = File::open(folder).map_err(|why| SessionError::kernel("fs", &why))?;
    let file = openat2(&folder, OsStr::from_bytes(path), flags, mode, beneath).map_err(failed)?;
    let file = File::from(file);
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    if !is_file {
        let why = "a stream is redirected to a regular file below fs/ only";
        return Err(SessionError::new(Refusal::NotPermitted, why));
    }
    Ok(file)
}
