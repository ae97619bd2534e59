//! A pid that is used again at once: the second process starts from zero in every count.

use super::block::File;
use super::privilege::{granted, skip};
use super::workload::{Guarded, alive, processes, served, until};
use monitor::backend::Backend;
use monitor::backend::procfs::{Procfs, Root};
use monitor::meter::session::Session;
use monitor::model::field::{ProcessField as F, Value};
use monitor::model::id::Pid;
use monitor::model::rates::Rates;
use monitor::model::sample::{Process, Sample};
use monitor::model::want::Capability;

/// Makes processes one after the other, with the pid that is asked for (`clone3(2)`, `set_tid`).
/// Each burns CPU, sends, writes to a disk as it is told, says how long its own clock ran, and
/// waits for its end. The parent keeps the other ends and never reads.
const FORKS: &str = "
import ctypes, mmap, os, socket, struct, sys, time
libc = ctypes.CDLL(None)
path = sys.argv[1]
listener = socket.create_server(('127.0.0.1', 0), backlog=16)
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(('127.0.0.1', 0))
page = mmap.mmap(-1, 4096)
def clone(pid):
    wanted = ctypes.c_int(pid)
    where, n = (ctypes.addressof(wanted), 1) if pid else (0, 0)
    sys.stdout.flush()
    return libc.syscall(435, struct.pack('11Q', 0, 0, 0, 0, 17, 0, 0, 0, where, n, 0), 88)
def work(amount):
    until = time.process_time_ns() + amount * 100_000
    while time.process_time_ns() < until: pass
    stream = socket.socket()
    stream.connect(listener.getsockname())
    stream.sendall(bytes(amount))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.sendto(bytes(amount), sink.getsockname())
    disk = os.open(path, os.O_WRONLY | os.O_DIRECT)
    for _ in range(amount // 100): os.write(disk, page)
    print(os.getpid(), time.process_time_ns(), flush=True)
    return stream, datagrams
for line in sys.stdin:
    pid, amount = map(int, line.split())
    come, go = os.pipe()
    child = clone(pid)
    if child == 0:
        os.close(go)
        held = work(amount)
        os.read(come, 1)
        os._exit(0)
    if child < 0: print('-1 0', flush=True)
    os.close(come)
    sys.stdin.readline()
    os.close(go)
    if child > 0: os.waitpid(child, 0)
    print('over', flush=True)
";

/// What the first process did, and the second: bytes sent; pages are a hundredth.
const AMOUNTS: [u64; 2] = [5_003, 701];
const COUNTED: [F; 4] = [F::TcpSent, F::UdpSent, F::SocketSendCalls, F::BlockWrittenBytes];

/// What a process that did so much must have.
fn wanted(amount: u64) -> [u64; 4] {
    [amount, amount, 2, amount / 100 * 4096]
}

/// The maker of processes.
struct Forks(Guarded);

impl Forks {
    fn new(file: &File) -> Self {
        let mut command = std::process::Command::new("python3");
        Self(Guarded::run(command.args(["-c", FORKS]).arg(file.path())))
    }

    /// Makes a process and lets it work: its pid, and the time that its clock shows. `None` where
    /// the kernel cannot give it that pid.
    fn make(&mut self, pid: u32, amount: u64) -> Option<(Pid, u64)> {
        self.0.tell(&format!("{pid} {amount}"));
        let line = self.0.line();
        let (pid, clock) = line.split_once(' ').unwrap();
        Some((Pid(pid.parse().ok()?), clock.parse().unwrap()))
    }

    /// Lets the process end, and waits until its pid is free.
    fn end(&mut self) {
        self.0.tell("end");
        assert_eq!(self.0.line(), "over");
    }
}

/// A process of the test: its pid, and the time that its own clock showed.
type Made = (Pid, u64);

/// Two processes with one pid. What a backend says while the first lives, and while the second
/// does: in the next reading, and, if ends are told, once that of the first is.
fn two(test: &str, backend: &mut dyn Backend, tells_ends: bool) -> Option<[(Made, Rates); 2]> {
    let file = File::on_disk(test)?;
    let mut forks = Forks::new(&file);
    let mut session = Session::default();
    let first = forks.make(0, AMOUNTS[0])?;
    let before = session.advance(backend.read(&processes()).unwrap()).clone();
    forks.end();
    let Some(second) = forks.make(first.0.0, AMOUNTS[1]) else {
        skip(test, "this kernel gives no process the pid that is asked for");
        return None;
    };
    assert_eq!(first.0, second.0, "one pid");
    let mut ends = Vec::new();
    let after = session.advance(backend.read(&processes()).unwrap()).clone();
    ends.extend(ended(&after.sample, first.0));
    if tells_ends && ends.is_empty() {
        let later = until(backend, &processes(), |sample| ended(sample, first.0).is_some());
        ends.extend(ended(&later, first.0));
    }
    forks.end();
    ends.iter().for_each(|it| check_counts(it, AMOUNTS[0]));
    assert_eq!(ends.len(), usize::from(tells_ends), "the first ended once");
    Some([(first, before), (second, after)])
}

fn ended(sample: &Sample, pid: Pid) -> Option<Process> {
    sample.processes.iter().find(|it| it.id.pid == pid && it.ended()).cloned()
}

#[track_caller]
fn check_counts(process: &Process, amount: u64) {
    assert_eq!(COUNTED.map(|field| process.row.get(field).unwrap()), wanted(amount));
}

/// CPU time of a process that sleeps, beside its own clock; it ran a little after it looked.
#[track_caller]
fn check_cpu([(one, before), (other, after)]: &[(Made, Rates); 2], grain_ns: u64) {
    for ((pid, clock), rates) in [(one, before), (other, after)] {
        let cpu = alive(&rates.sample, *pid).unwrap().row.get(F::CpuTime).unwrap();
        println!("cpu {cpu} ns, its own clock {clock} ns");
        assert!((clock.saturating_sub(grain_ns)..clock + 10_000_000 + grain_ns).contains(&cpu));
    }
    let [first, second] = [before, after].map(|it| alive(&it.sample, one.0).unwrap());
    assert!(first.id.start < second.id.start);
}

#[test]
fn root_a_reused_pid_starts_from_zero_in_every_count() {
    let name = "root_a_reused_pid_starts_from_zero_in_every_count";
    if !granted(name) {
        return;
    }
    let capabilities =
        [Capability::Lifetimes, Capability::Tcp, Capability::Sockets, Capability::Block];
    let Some(mut backend) = served(name, &capabilities) else { return };
    let Some(both) = two(name, &mut backend, true) else { return };
    check_cpu(&both, 0);
    for ((made, rates), amount) in both.iter().zip(AMOUNTS) {
        check_counts(alive(&rates.sample, made.0).unwrap(), amount);
    }
    // Its rates are of its own life: it began within the interval.
    let [_, (second, Rates { interval, sample })] = &both;
    let seconds = interval.unwrap().seconds();
    for (field, amount) in [(F::TcpSentRate, 701.0), (F::BlockWrittenRate, 7.0 * 4096.0)] {
        let Some(Value::Float(rate)) = alive(sample, second.0).unwrap().value(field) else {
            panic!("no {field:?}");
        };
        assert!((rate * seconds - amount).abs() < 0.001 * amount, "{rate}/s for {seconds} s");
    }
}

#[test]
fn root_a_reused_pid_starts_from_zero_in_proc_too() {
    let name = "root_a_reused_pid_starts_from_zero_in_proc_too";
    if !granted(name) {
        return;
    }
    let mut backend = Procfs::open(Root::default()).unwrap();
    if let Some(both) = two(name, &mut backend, false) {
        check_cpu(&both, 10_000_000);
    }
}
