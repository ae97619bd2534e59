//! `environment_changed`, `environment_history` and `job events --class environment`: a rank that
//! is killed because the memory of its control group is used up.

use super::OPEN_MPI;
use super::events::Printing;
use crate::deadline;
use crate::guardian::OWN_MACHINE;
use crate::root::privilege::{able, as_user, skip};
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const FOLLOWING: &str = "[jobs]\nfollow = true\nenvironment = true\n";
const WAIT: &str =
    "10 [0] environment_changed([\"oom\"]): 11 [0] print([$1,$2,$3,$6,$7,$8,$9,$4,$5])";
/// Where the memory of control groups has a limit, and the file that has it.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A control group with little memory, removed with the test.
struct SmallGroup(PathBuf);

impl SmallGroup {
    fn new() -> Option<Self> {
        let name = format!("monitor-test-{}", std::process::id());
        HIERARCHIES.iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(&name);
            let is_made = Path::new(root).exists() && fs::create_dir(&folder).is_ok();
            let it = is_made.then_some(Self(folder))?;
            fs::write(it.0.join(limit), "16000000").ok().map(|()| it)
        })
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        // It is busy until the process has ended.
        deadline::until(|| fs::remove_dir(&self.0).is_ok().then_some(()));
    }
}

fn waiting(served: &Served) -> SocketSession {
    let mut session = served.connect();
    assert_eq!(session.request(WAIT), "10 [0] environment_changed(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    session
}

/// Whether the tracepoint of kills has the process that is killed. Before, kills are counted.
fn names_victims() -> bool {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_str().unwrap().to_owned();
    let mut parts = release.split('.').map(|it| it.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(10))
}

/// The next kill of this process, or of one that is not shown.
#[track_caller]
fn next(session: &mut SocketSession, pid: &str) -> String {
    loop {
        let line = session.line().expect("a change");
        if line.contains(&format!(",{pid},")) {
            return line;
        }
    }
}

#[test]
fn root_a_rank_that_is_killed_for_its_memory_is_reported_with_its_job() {
    const TEST: &str = "root_a_rank_that_is_killed_for_its_memory_is_reported_with_its_job";
    if !able(TEST) {
        return;
    }
    let Some(group) = SmallGroup::new() else {
        return skip(TEST, "needs control groups with a limit of memory");
    };
    let gate = group.0.join("tasks");
    let gate = if gate.exists() { gate } else { group.0.join("cgroup.procs") };
    let script = format!(
        "if [ $RANK = 1 ]; then trap 'echo $$ > {}; exec tail /dev/zero' USR1; \
         while :; do sleep 0.1; done; fi; exec sleep 1000",
        gate.display()
    );
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let (mut session, mut other) = (waiting(&served), as_user(&[], || waiting(&served)));
    let mut lines = Printing::run(&served, "job events --class environment --format json");
    let Some(job) = OPEN_MPI.start(TEST, 2, &script) else { return };
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let history = format!("1 [0] job_history(\"{id}\",0)");
    deadline::until(|| served.connect().request(&history).contains("\"running\"").then_some(()));
    let victim = job.ranks()[1];
    let pid = rustix::process::Pid::from_raw(victim.0.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    if !names_victims() {
        let line = next(&mut session, "-1");
        return assert!(line.contains("[\"oom\",\"node\",\"kill\",-1,\"\",-1,-1,"), "{line}");
    }
    let line = next(&mut session, &victim.0.to_string());
    let want = format!(",\"kill\",{},\"{id}\",1,0,", victim.0);
    assert!(line.contains("[\"oom\",\"") && line.contains(&want), "{line}");
    let hidden = next(&mut other, "-1");
    assert!(hidden.contains("[\"oom\",\"\",\"kill\",-1,\"\",-1,-1,"), "{hidden}");
    let printed = deadline::until(|| {
        let line: Value = serde_json::from_str(&lines.line()).unwrap();
        (line["pid"] == victim.0).then_some(line)
    });
    assert_eq!((&printed["job"], &printed["rank"]), (&id.as_str().into(), &1.into()));
    assert_eq!(printed["new"].as_u64(), printed["old"].as_u64().map(|old| old + 1));
    let kept = served.connect().request("1 [0] environment_history(0)");
    assert!(kept.contains(&format!(",{},\"{id}\",1,0,", victim.0)), "{kept}");
    let mut replayed = Printing::run(&served, &format!("job events {id} --replay 1h"));
    let replayed: Vec<String> = (0..3).map(|_| replayed.line()).collect();
    let want = format!("pid {}, user root, rank 1 of job {id}\n", victim.0);
    assert!(replayed.iter().any(|line| line.ends_with(&want)), "{replayed:?}");
}

/// Where `mce-inject` has its files, in the virtual machine of `cargo xtask vm`.
const INJECT: &str = "/sys/kernel/debug/mce-inject";

#[test]
fn root_a_corrected_machine_check_is_reported_with_its_processor_and_bank() {
    if !able("root_a_corrected_machine_check_is_reported_with_its_processor_and_bank") {
        return;
    }
    if std::env::var_os(OWN_MACHINE).is_none() || !Path::new(INJECT).exists() {
        println!("no machine check: this machine is not the tests' own, or has no mce-inject");
        return;
    }
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let mut session = served.connect();
    let wait = WAIT.replace("oom", "machine-check");
    assert_eq!(session.request(&wait), "10 [0] environment_changed(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    let inject = || {
        // Valid, enabled, corrected; the bank is written last, which injects.
        for (file, text) in
            [("flags", "sw\n"), ("cpu", "1"), ("status", "0x9000000000000000"), ("bank", "4")]
        {
            fs::write(format!("{INJECT}/{file}"), text).unwrap();
        }
    };
    // A record that comes before the program is attached is not seen: the next one is.
    let line = deadline::until(|| {
        inject();
        let kept = served.connect().request("1 [0] environment_history(0)");
        kept.contains("cpu1 bank 4").then_some(kept)
    });
    assert!(line.contains("\"machine-check\",\"cpu1 bank 4\",\"corrected\",0,"), "{line}");
    let line = session.line().unwrap();
    assert!(line.contains("\"machine-check\",\"cpu1 bank 4\",\"corrected\",-1,"), "{line}");
}

#[test]
fn each_source_is_in_the_report_of_the_doctor() {
    let got = monitor().args(["job", "doctor", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&got.stdout).unwrap();
    let sources = report["sources"].as_array().unwrap();
    let names: Vec<_> = sources.iter().map(|it| it["source"].as_str().unwrap()).collect();
    let all = ["ecc", "machine-check", "thermal", "infiniband", "pcie", "oom"];
    assert_eq!(names, all);
    assert!(sources.iter().all(|it| it["values"].is_null() != it["missing"].is_null()));
}
