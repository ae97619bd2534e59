//! Workloads that tests start, and waits for their effects.

use super::first::FirstProcess;
use super::preferred::Preferred;
use crate::deadline;
use monitor_backend::Backend;
use monitor_loader::Ebpf;
use monitor_model::id::Pid;
use monitor_model::probe::Health;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::sample::{Process, Sample};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// All processes, nothing else.
pub fn processes() -> ReadSpec {
    ReadSpec { processes: true, ..ReadSpec::default() }
}

/// All processes with their threads.
pub fn threads() -> ReadSpec {
    ReadSpec { threads: true, ..processes() }
}

/// The eBPF backend with these capabilities, none of them refused.
#[track_caller]
pub fn ebpf(capabilities: &[Capability]) -> Ebpf {
    let mut backend = Ebpf::open(capabilities, 0).unwrap();
    let mut probes = backend.probes().into_iter();
    let degraded = probes.find(|probe| probe.degraded());
    assert!(degraded.is_none(), "{degraded:?}");
    backend
}

/// The same, if this kernel serves them all, by any hooks; else prints a skip with the reason.
/// `doctor.rs` defines which kernels must serve what.
#[track_caller]
pub fn served(test: &str, capabilities: &[Capability]) -> Option<Ebpf> {
    opened(test, capabilities, |health| matches!(health, Health::Unsupported { .. }))
}

/// The same, if this kernel serves them all exactly.
#[track_caller]
pub fn exact(test: &str, capabilities: &[Capability]) -> Option<Ebpf> {
    let lacks = |health: &Health| {
        matches!(health, Health::Unsupported { .. } | Health::Fallback { exact: false, .. })
    };
    opened(test, capabilities, lacks)
}

/// Whether a kernel refuses a program that others of its release run: before the verifier has seen
/// an instruction, and so without a reason, or because it does not trust the socket of a file.
pub fn is_forbidden(why: &str) -> bool {
    why.ends_with("the kernel refused it: no reason given; report it with the kernel's release")
        || why.contains("R1 type=untrusted_ptr_ expected=sock_common")
}

#[track_caller]
fn opened(test: &str, capabilities: &[Capability], lacks: fn(&Health) -> bool) -> Option<Ebpf> {
    let mut backend = Ebpf::open(capabilities, 0).unwrap();
    for probe in backend.probes() {
        if lacks(&probe.health) {
            println!("SKIP {test}: {}: {:?}", probe.capability.name(), probe.health);
            return None;
        }
        assert!(!matches!(probe.health, Health::Failed { .. }), "{probe:?}");
    }
    Some(backend)
}

/// Reads until a sample satisfies the condition.
#[track_caller]
pub fn until(
    backend: &mut dyn Backend,
    want: &ReadSpec,
    mut holds: impl FnMut(&Sample) -> bool,
) -> Sample {
    deadline::until(|| Some(backend.read(want).unwrap()).filter(|sample| holds(sample)))
}

/// The process with this id that has not ended: one that had it before may be there until the
/// kernel has freed it.
pub fn alive(sample: &Sample, pid: Pid) -> Option<&Process> {
    let all = sample.processes.iter().filter(|it| it.id.pid == pid && !it.ended());
    all.max_by_key(|it| it.id.start)
}

/// Repeats the work until the first process did not disturb it. A wait within the work ends when
/// that process has run: what it waits for may be hidden.
#[track_caller]
pub fn undisturbed<T>(mut work: impl FnMut(&FirstProcess) -> Option<T>) -> T {
    let _preferred = Preferred::now();
    deadline::until(|| {
        let first = FirstProcess::watched();
        work(&first).filter(|_| !first.has_run())
    })
}

/// A child that is ended with the test.
pub struct Guarded(pub Child);

impl Guarded {
    /// Whether its first thread waits.
    pub fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid().0)).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    /// Runs a shell script.
    pub fn sh(script: &str) -> Self {
        Self::run(Command::new("sh").args(["-c", script]))
    }

    /// Runs a Python program; `ready` can be waited for.
    pub fn python(program: &str) -> Self {
        Self::run(Command::new("python3").args(["-c", program]))
    }

    /// Runs a command in a process group of its own, its output to be read by the test.
    pub fn run(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn();
        Self(child.unwrap())
    }

    /// Its id.
    pub fn pid(&self) -> Pid {
        Pid(self.0.id())
    }

    /// Gives it a line to read.
    pub fn send_line(&mut self, line: &str) {
        use std::io::Write as _;
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it has printed a line; returns the line.
    pub fn line(&mut self) -> String {
        use std::io::Read as _;
        let output = self.0.stdout.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        // Already reaped by the test, if this fails.
        let _ =
            group.map(|it| rustix::process::kill_process_group(it, rustix::process::Signal::KILL));
        let _ = self.0.wait();
    }
}
