//! What a user receives about the processes of another user is what `/proc` shows that user, as
//! often as it is read: no event, no other field, no value that its own readings contradict.
//!
//! `MONITOR_ROUNDS` is the number of samples, five in a second.

use super::privilege::{able, as_user};
use super::workload::Guarded;
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The user that is listened to.
const OTHER: u32 = 61_235;
/// Samples, unless `MONITOR_ROUNDS` says otherwise.
const ROUNDS: usize = 25;
/// Readings to compare with: samples arrive some time after they were taken.
const MAX_READINGS: usize = 100;
/// Time of a tick of `/proc/PID/stat`.
const TICK_NS: u64 = 10_000_000;

/// An editor in which something is typed, a shell, and servers with clients.
const WORK: [&str; 4] = [
    "(while :; do printf 'iword \\033'; sleep 0.13; done) | \
     script -qc \"$(command -v vim || echo cat) -u NONE -i NONE -n\" /dev/null",
    "while :; do ls /usr/lib >/dev/null; sleep 0.07; done",
    "command -v redis-server || exec sleep infinity; \
     redis-server --port 0 --unixsocket $DIR/redis --save '' >/dev/null & \
     while :; do redis-cli -s $DIR/redis incr n; sleep 0.05; done",
    "command -v nginx || exec sleep infinity; \
     printf 'daemon off; pid %s/pid; events {} http { access_log off; \
     client_body_temp_path %s; proxy_temp_path %s; fastcgi_temp_path %s; uwsgi_temp_path %s; \
     scgi_temp_path %s; server { listen unix:%s/nginx; root /usr; } }' \
     $DIR $DIR $DIR $DIR $DIR $DIR $DIR >$DIR/conf; nginx -e stderr -c $DIR/conf & \
     while :; do curl -s --unix-socket $DIR/nginx http://localhost/; sleep 0.05; done",
];

/// Events that are asked for.
const EVENTS: [&str; 6] = [
    "process_blocked([])",
    "process_unblocked([])",
    "process_signal([],[])",
    "process_terminated([])",
    "new_process()",
    "scheduling()",
];

/// Rates and what is computed of counters that are compared.
const DERIVED: [&str; 6] = [
    "cpu_percent",
    "run_delay_percent",
    "voluntary_switches_per_s",
    "involuntary_switches_per_s",
    "minor_faults_per_s",
    "major_faults_per_s",
];

/// Parts of `cpu_ns`, as the kernel splits it by the ticks of `/proc/PID/stat`.
const PARTS: [&str; 2] = ["user_ns", "system_ns"];

/// What changes at any moment, and is in `/proc/PID/stat` and `status`.
const MOMENTARY: [&str; 14] = [
    "state",
    "processor",
    "rss_bytes",
    "rss_anon_bytes",
    "rss_file_bytes",
    "rss_shmem_bytes",
    "swap_bytes",
    "vsize_bytes",
    "peak_rss_bytes",
    "peak_vsize_bytes",
    "kernel_thread",
    "cgroup_id",
    "pid",
    "tid",
];

/// What the user reads of a process or a thread, by the names of the fields.
#[derive(Default)]
struct OwnReading {
    texts: HashMap<&'static str, String>,
    counts: HashMap<&'static str, u64>,
}

/// Reads `/proc/PID` or `/proc/PID/task/TID`; `None` if it has ended meanwhile.
fn own_reading(dir: &str) -> Option<OwnReading> {
    let read = |file: &str| fs::read_to_string(format!("{dir}/{file}")).ok();
    let (stat, status) = (read("stat")?, read("status")?);
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The third field of proc_pid_stat(5) is the first here.
    let field = |n: usize| words.get(n - 3).copied().unwrap_or("");
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.and_then(|it| it.split_whitespace().next()).unwrap_or("").to_owned()
    };
    let mut it = OwnReading::default();
    let cmdline = fs::read(format!("{dir}/cmdline")).ok()?;
    if cmdline.is_empty() {
        return None; // It is ending.
    }
    let cmdline = String::from_utf8_lossy(&cmdline).trim_end_matches('\0').replace('\0', " ");
    let cgroup = read("cgroup")?;
    // The path that the field names, docs/FIELDS.md; no process here is in a container.
    let unified = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let paths = || cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let longest = || paths().max_by_key(|path| path.len()).unwrap_or("/");
    let cgroup = if unified == "/" { longest() } else { unified }.to_owned();
    it.texts.extend([
        ("comm", read("comm")?.trim_end().to_owned()),
        ("cmdline", cmdline),
        ("cgroup", cgroup),
        ("ppid", field(4).to_owned()),
        ("uid", line("Uid")),
        ("gid", line("Gid")),
        ("threads", field(20).to_owned()),
        ("priority", field(18).to_owned()),
        ("nice", field(19).to_owned()),
        ("policy", field(41).to_owned()),
    ]);
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    // The counts of a process are those of its threads, besides those that have ended.
    let tasks: Vec<String> = match fs::read_dir(format!("{dir}/task")) {
        Ok(all) => all.flatten().map(|it| it.path().display().to_string()).collect(),
        // A thread.
        Err(_) => vec![dir.to_owned()],
    };
    if tasks.is_empty() {
        return None;
    }
    let mut sum = [0; 5];
    for task in tasks {
        let schedule = fs::read_to_string(format!("{task}/schedstat")).ok()?;
        let switches = fs::read_to_string(format!("{task}/status")).ok()?;
        let count = |name: &str| switches.lines().find_map(|line| line.strip_prefix(name));
        let count = |name| count(name).map_or(0, |text| number(text.trim()));
        let of_schedule = schedule.split_whitespace().map(number).collect::<Vec<_>>();
        let both = [count("voluntary_ctxt_switches:"), count("nonvoluntary_ctxt_switches:")];
        sum.iter_mut().zip(of_schedule.into_iter().chain(both)).for_each(|(sum, n)| *sum += n);
    }
    let [run_ns, delay_ns, runs, voluntary, involuntary] = sum;
    it.counts.extend([
        ("cpu_ns", run_ns),
        ("run_delay_ns", delay_ns),
        ("run_count", runs),
        ("voluntary_switches", voluntary),
        ("involuntary_switches", involuntary),
        ("minor_faults", number(field(10))),
        ("major_faults", number(field(12))),
        ("start_time_ns", number(field(22)) * TICK_NS),
    ]);
    Some(it)
}

/// The processes of the other user and their threads, as the user reads them.
fn own_readings() -> BTreeMap<u64, OwnReading> {
    let mut all = BTreeMap::new();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let others = entries.filter(|it| it.metadata().is_ok_and(|it| it.uid() == OTHER));
    for process in others {
        let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        let paths =
            tasks.map(|it| it.path()).filter(|it| it.file_name() != Some(&process.file_name()));
        for path in paths.chain([process.path()]) {
            let pid = path.file_name().and_then(|it| it.to_str()?.parse().ok());
            let reading = path.to_str().and_then(own_reading);
            all.extend(pid.zip(reading));
        }
    }
    all
}

/// The fields that were compared, those that could not be, and the exceptions.
#[derive(Default)]
struct Comparison {
    n_compared: usize,
    n_unknown: usize,
    exceptions: Vec<String>,
}

impl Comparison {
    /// Compares a row with the readings before and after it.
    fn row(&mut self, row: &Value, before: Option<&OwnReading>, after: Option<&OwnReading>) {
        for (name, value) in row.as_object().unwrap() {
            let name = name.as_str();
            if name == "thread_list" {
                continue;
            }
            let text = |it: &OwnReading| it.texts.get(name).cloned();
            let count = |it: &OwnReading| it.counts.get(name).copied();
            let both = [before, after];
            let texts: Vec<String> = both.into_iter().flatten().filter_map(text).collect();
            let cpu = |it: &OwnReading| it.counts.get("cpu_ns").copied();
            let is_good = if PARTS.contains(&name) {
                is_between(name, value.as_u64().unwrap(), None, after.and_then(cpu))
            } else if MOMENTARY.contains(&name) || DERIVED.contains(&name) {
                true
            } else if !OwnReading::knows(name) {
                false
            } else if before.is_none() && after.is_none() {
                // It lived between two readings of the user, and during one of the service.
                self.n_unknown += 1;
                continue;
            } else if texts.is_empty() {
                let value = value.as_u64().unwrap_or(u64::MAX);
                is_between(name, value, before.and_then(count), after.and_then(count))
            } else {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if before.is_none() && !texts.contains(&value) {
                    // It has executed another program since.
                    self.n_unknown += 1;
                    continue;
                }
                texts.contains(&value)
            };
            self.n_compared += 1;
            if !is_good {
                let of = |it: Option<&OwnReading>| it.map(|it| (text(it), count(it)));
                let why = format!("{name} {value}: read {:?} and {:?}", of(before), of(after));
                self.exceptions.push(why);
            }
        }
    }
}

impl OwnReading {
    fn knows(name: &str) -> bool {
        let own = own_reading("/proc/self").unwrap();
        own.texts.contains_key(name) || own.counts.contains_key(name)
    }
}

/// Whether a counter is between two readings. Times of stat(5) are in ticks, and rounded.
fn is_between(name: &str, value: u64, before: Option<u64>, after: Option<u64>) -> bool {
    let slack = if name.ends_with("_ns") { 2 * TICK_NS } else { 0 };
    before.is_none_or(|it| it <= value.saturating_add(slack))
        && after.is_none_or(|it| value <= it.saturating_add(slack))
}

/// Attaches to processes of the other user as far as it may, and asks for all events.
fn subscribe(session: &mut SocketSession, pids: &[u64]) {
    for pid in pids {
        let _reply = session.request(&format!("1 [0] attach([{pid}])"));
    }
    for (n, event) in EVENTS.iter().enumerate() {
        let id = 10 * (n + 1);
        let _reply = session.request(&format!("{id} [0] {event}: {} [0] print([$1])", id + 1));
        let _reply = session.request(&format!("9 [0] enable({id})"));
    }
}

fn unix_ns() -> u64 {
    monitor_sys::clock::now().unix.0
}

/// Listens for a number of samples as the user.
fn listen(served: &Served, rounds: usize) -> Comparison {
    let mut comparison = Comparison::default();
    let first = own_readings();
    let mut events = SocketSession::connect(served.socket());
    subscribe(&mut events, &first.keys().copied().collect::<Vec<_>>());
    let mut session = SocketSession::connect(served.socket());
    let call = r#"{"id":1,"method":"monitor","params":{"part":"all","every_ns":200000000,
        "threads":true,"histograms":true}}"#;
    session.send((call.replace('\n', "") + "\n").as_bytes()).unwrap();
    let mut readings = VecDeque::from([(unix_ns(), first)]);
    for _ in 0..rounds {
        let line = session.next_json().expect("a sample");
        let after = own_readings();
        let sample = ["result", "params"].iter().find_map(|it| line[it].get("sample"));
        let sample = sample.unwrap_or_else(|| panic!("{line}"));
        for (name, must_be) in
            [("lost", json!([])), ("histograms", json!({})), ("events", Value::Null)]
        {
            if sample[name] != must_be && !sample[name].is_null() {
                comparison.exceptions.push(format!("{name}: {}", sample[name]));
            }
        }
        let at = sample["time_unix_ns"].as_u64().unwrap();
        // The last one that ended before the sample was taken.
        let before = readings.iter().rfind(|(end, _)| *end <= at).map(|(_, reading)| reading);
        let rows = sample["processes"].as_array().unwrap().iter();
        for row in rows.filter(|row| row["uid"] == OTHER) {
            let key = |row: &Value, name: &str| row[name].as_u64().unwrap();
            let pid = key(row, "pid");
            comparison.row(row, before.and_then(|it| it.get(&pid)), after.get(&pid));
            for thread in row["thread_list"].as_array().into_iter().flatten() {
                let tid = key(thread, "tid");
                if tid != pid {
                    let before = before.and_then(|it| it.get(&tid));
                    comparison.row(thread, before, after.get(&tid));
                }
            }
        }
        readings.push_back((unix_ns(), after));
        if readings.len() > MAX_READINGS {
            _ = readings.pop_front();
        }
    }
    // What happened has arrived before the reply.
    events.send(b"9 [0] print(1)\n").unwrap();
    while let Some(line) = events.line().filter(|line| !line.starts_with("9 ")) {
        comparison.exceptions.push(line);
    }
    comparison
}

#[test]
fn root_a_user_receives_of_others_what_its_own_readings_show() {
    if !able("root_a_user_receives_of_others_what_its_own_readings_show") {
        return;
    }
    let rounds = std::env::var("MONITOR_ROUNDS").ok().and_then(|it| it.parse().ok());
    let folder = Folder::new();
    std::os::unix::fs::chown(folder.path(), Some(OTHER), Some(OTHER)).unwrap();
    let work = |script: &&str| {
        let mut sh = Command::new("sh");
        let script = format!("exec >/dev/null; {script}");
        let sh = sh.args(["-c", &script]).env("DIR", folder.path()).current_dir(folder.path());
        Guarded::run(sh.stderr(std::process::Stdio::null()).uid(OTHER).gid(OTHER))
    };
    let _working: Vec<Guarded> = WORK.iter().map(work).collect();
    // So that its period is not stretched.
    let served = Served::started("[budget]\nshare = \"50%\"\n", monitor(), "auto");
    let found = as_user(&[], || listen(&served, rounds.unwrap_or(ROUNDS)));
    let (compared, unknown) = (found.n_compared, found.n_unknown);
    // Not `println!`: libtest hides that of a test that passes.
    let _ = writeln!(
        std::io::stderr(),
        "{compared} fields compared, {unknown} of processes that began since the last own reading"
    );
    let n = found.exceptions.len();
    assert!(n == 0, "{n} exceptions: {:#?}", &found.exceptions[..n.min(20)]);
    assert!(compared > 0);
}
