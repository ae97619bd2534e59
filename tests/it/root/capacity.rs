//! No interval of any output has more CPU time than the processors, no counter falls, and a process
//! that is removed from the kernel's lists has its last total, while processes and threads start
//! and end all the time.

use super::privilege::granted;
use crate::served::{Folder, Served, monitor};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Readings of each recording.
const N_SAMPLES: &str = "31";
const EVERY: &str = "100ms";

/// What programs of a compiler do: short ones, and a few that work for some milliseconds.
const SHORT: &str = "
short() { while :; do /bin/true; /bin/true; /bin/true; sh -c 'i=0; \
 while [ $i -lt 9000 ]; do i=$((i+1)); done'; done; }
short & short & short & wait
";

/// Counters that the kernel keeps for each process.
const COUNTERS: [&str; 9] = [
    "cpu_ns",
    "user_ns",
    "system_ns",
    "run_delay_ns",
    "run_count",
    "voluntary_switches",
    "involuntary_switches",
    "minor_faults",
    "major_faults",
];

/// Processes and threads that start and end until this is dropped.
struct Churn {
    processes: Child,
    threads: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
}

impl Churn {
    fn start() -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "setsid", "timeout", "600", "sh", "-c", SHORT]);
        let over = Arc::new(AtomicBool::new(false));
        let storm = || {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let all: Vec<_> = (0..7).map(|_| std::thread::spawn(work)).collect();
                    all.into_iter().for_each(|it| it.join().unwrap());
                }
            })
        };
        let threads = (0..2).map(|_| storm()).collect();
        Self { processes: command.stdin(Stdio::null()).spawn().unwrap(), threads, over }
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // `timeout` passes the signal on to its group.
        let pid = rustix::process::Pid::from_child(&self.processes);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.processes.wait();
        self.threads.drain(..).for_each(|it| it.join().unwrap());
    }
}

/// Half a millisecond.
fn work() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(500) {
        std::hint::black_box(start);
    }
}

/// The samples of a recording that this command makes, as the export has them.
fn recorded(mut command: Command) -> Vec<Value> {
    let folder = Folder::new();
    let file = folder.join("churn.rec");
    let output = command
        .args(["--count", N_SAMPLES, "--every", EVERY])
        .arg(&file)
        .arg("proc")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fields = format!("pid,start_time_ns,comm,state,ended,cpu_percent,{}", COUNTERS.join(","));
    let mut export = monitor();
    export.arg("export").arg(&file).args(["--format", "json", "--fields", &fields]);
    let text = String::from_utf8(export.output().unwrap().stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

type Identity = (u64, u64);

fn identity(process: &Value) -> Identity {
    (process["pid"].as_u64().unwrap(), process["start_time_ns"].as_u64().unwrap())
}

/// Checks that each process that was about to end then ended with the CPU time it had; returns how
/// many there were.
fn check_totals_before_ends(samples: &[Value]) -> usize {
    let mut ending = HashMap::new();
    let mut found = 0;
    for sample in samples {
        for process in sample["processes"].as_array().unwrap() {
            let id = identity(process);
            if let Some(before) = ending.remove(&id) {
                assert_eq!(process["cpu_ns"], before, "{process}");
                found += 1;
            }
            if process["state"] == "X" && process["ended"] != true {
                let _none = ending.insert(id, process["cpu_ns"].clone());
            }
        }
    }
    found
}

/// The sample before, and what is wrong so far.
#[derive(Default)]
struct Checked {
    last: HashMap<Identity, Value>,
    ended: HashSet<Identity>,
    falls: Vec<String>,
    /// Nanoseconds beyond the capacity and the stated error.
    excesses: Vec<String>,
}

impl Checked {
    fn check(&mut self, sample: &Value) {
        let mut used_ns = 0;
        let mut now = HashMap::new();
        // What only hooks count, after the end of a process, has a row without CPU time.
        let rows = sample["processes"].as_array().unwrap().iter();
        for process in rows.filter(|it| it["cpu_ns"].is_u64()) {
            let id = identity(process);
            assert!(!self.ended.contains(&id), "reported again after its end: {process}");
            let before = self.last.get(&id);
            let fallen = |name: &&&str| {
                let before = before.and_then(|it| it[**name].as_u64());
                process[**name].as_u64() < before && process[**name].is_u64()
            };
            let report = |name: &&str| format!("{name}: {before:?}, then {process}");
            self.falls.extend(COUNTERS.iter().filter(fallen).map(report));
            let cpu = |it: &Value| it["cpu_ns"].as_u64().unwrap();
            used_ns += cpu(process).saturating_sub(before.map_or(0, cpu));
            if process["ended"] == true {
                let _new = self.ended.insert(id);
            }
            let _none = now.insert(id, process.clone());
        }
        let last = std::mem::replace(&mut self.last, now);
        let is_new = |it: &&Value| !last.contains_key(&identity(it));
        if !last.is_empty()
            && let Some(text) = excess(sample, used_ns)
        {
            let new: Vec<_> =
                sample["processes"].as_array().unwrap().iter().filter(is_new).collect();
            self.excesses.push(format!("{text}; new are {new:?}"));
        }
    }
}

/// What the processes used beyond the capacity of an interval, as counters and as rates have it.
fn excess(sample: &Value, used_ns: u64) -> Option<String> {
    let processors = std::thread::available_parallelism().unwrap().get() as u64;
    let [interval, error] =
        ["interval_ns", "time_error_ns"].map(|key| sample[key].as_u64().unwrap_or(0));
    let most = processors * (interval + error);
    let percents = sample["processes"].as_array().unwrap().iter();
    let percents: f64 = percents.filter_map(|it| it["cpu_percent"].as_f64()).sum();
    let rated_ns = (percents / 100.0 * interval as f64) as u64;
    // Rates have three decimals.
    let is_more = used_ns > most || rated_ns > most + interval / 1000;
    println!("used {used_ns} ns, of {interval} ns on {processors}; stated error {error} ns");
    is_more.then(|| format!("{used_ns} ns and {rated_ns} ns of at most {most} ns"))
}

#[track_caller]
fn check(samples: &[Value]) {
    let mut checked = Checked::default();
    samples.iter().for_each(|sample| checked.check(sample));
    assert!(samples.len() > 3, "{} samples", samples.len());
    assert_eq!(checked.excesses, [""; 0]);
    assert_eq!(checked.falls, [""; 0]);
}

/// A recording without the service, by this backend.
fn local(backend: &str) -> Vec<Value> {
    let mut command = monitor();
    command.args(["record", "--local", "--backend", backend]);
    recorded(command)
}

#[test]
fn root_no_interval_has_more_cpu_time_than_the_processors() {
    if !granted("root_no_interval_has_more_cpu_time_than_the_processors") {
        return;
    }
    let _churn = Churn::start();
    let samples = local("ebpf");
    check(&samples);
    assert!(check_totals_before_ends(&samples) > 0);
}

#[test]
fn root_no_interval_of_the_service_has_more_cpu_time_than_the_processors() {
    if !granted("root_no_interval_of_the_service_has_more_cpu_time_than_the_processors") {
        return;
    }
    let service = Served::start("ebpf");
    let _churn = Churn::start();
    let samples = recorded(service.command("record"));
    check(&samples);
    check_totals_before_ends(&samples);
}

#[test]
fn root_no_interval_of_proc_has_more_cpu_time_than_the_processors() {
    if !granted("root_no_interval_of_proc_has_more_cpu_time_than_the_processors") {
        return;
    }
    let _churn = Churn::start();
    check(&local("procfs"));
}
