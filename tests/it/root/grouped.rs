//! Groups of a monitor: what it reports of a cgroup is what the kernel counted there.

use super::conservation::{Cgroup, ENDED, TICK_NS, WORK};
use super::privilege::{granted, skip};
use super::workload::Guarded;
use crate::deadline;
use crate::served::Served;
use crate::socket_session::SocketSession;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The final report of a monitor on one group.
struct FinalReport {
    cpu_ns: u64,
    ended: u64,
    /// Samples that it took.
    samples: u64,
    /// Whether a record was lost meanwhile.
    lost: bool,
}

fn grouped(client: &mut SocketSession, every_ns: u64) {
    let params = json!({"group_by": "cgroup", "fields": ["cpu_ns"], "every_ns": every_ns});
    client.result("monitor", &params);
}

/// Reads until `ENDED` processes have ended in the group; its total never goes backwards.
fn follow(mut client: SocketSession, name: &str) -> FinalReport {
    let (mut cpu_ns, mut samples) = (0, 0);
    deadline::until(|| {
        let event = client.event();
        samples += 1;
        let lost = lost(&event["sample"]);
        let group = event["sample"]["groups"].as_array()?.iter().find(|it| it["name"] == name)?;
        let (now, ended) = (group["cpu_ns"].as_u64()?, group["ended"].as_u64()?);
        assert!(now >= cpu_ns, "{now} after {cpu_ns}");
        cpu_ns = now;
        (ended >= ENDED || lost).then_some(FinalReport { cpu_ns, ended, samples, lost })
    })
}

/// Whether a program had to drop anything.
fn lost(sample: &Value) -> bool {
    let dropped = |it: &Value| it["ring_full"] != 0 || it["table_full"] != 0;
    sample["lost"].as_array().unwrap().iter().any(dropped)
}

/// Processes of a sample whose last tick is missing, as a final record was lost.
fn marked(sample: &Value) -> u64 {
    let processes = sample["processes"].as_array().unwrap();
    processes.iter().filter(|it| it["approximate"] == true).count() as u64
}

#[test]
fn root_groups_of_a_monitor_are_what_their_cgroup_used() {
    let name = "root_groups_of_a_monitor_are_what_their_cgroup_used";
    if !granted(name) {
        return;
    }
    if Cgroup::new().is_none() {
        return skip(name, "no cgroup of version 2 can be made");
    }
    deadline::until(work);
}

/// Absent if a record was lost meanwhile.
fn work() -> Option<()> {
    let cgroup = Cgroup::new()?;
    let service = Served::start("ebpf");
    let (mut often, mut rarely) = (service.connect(), service.connect());
    let mut child = Guarded::sh(WORK);
    assert_eq!(child.line(), "ready");
    grouped(&mut often, 100_000_000);
    grouped(&mut rarely, 700_000_000);
    let mut rows = service.connect();
    let fields = json!({"fields": ["approximate"], "every_ns": 300_000_000});
    let mut marks = marked(&rows.result("monitor", &fields)["sample"]);
    cgroup.take(&child);
    child.send_line("go");
    let path = cgroup.name();
    let other = path.clone();
    let rarely = std::thread::spawn(move || follow(rarely, &other));
    let often = std::thread::spawn(move || follow(often, &path));
    while !(often.is_finished() && rarely.is_finished()) {
        marks += marked(&rows.event()["sample"]);
    }
    // It may have looked before the other two did.
    marks += marked(&rows.event()["sample"]);
    let reports = [often.join().unwrap(), rarely.join().unwrap()];
    let usage_ns = cgroup.usage_ns();
    if reports.iter().any(|it| it.lost) {
        return None;
    }
    for FinalReport { cpu_ns, ended, samples, .. } in reports {
        let apart = cpu_ns.abs_diff(usage_ns);
        println!("{ended} ended, {marks} marked, {samples} samples: {cpu_ns} ns, apart {apart} ns");
        assert_eq!(ended, ENDED);
        assert!(apart <= usage_ns / 1000 + marks * TICK_NS);
    }
    Some(())
}

/// A cgroup of version 1 with the name of a container, removed with the test.
struct V1Container(PathBuf);

const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl V1Container {
    /// In the first hierarchy of version 1 that takes processes at once; none without such.
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (folder, kind) = (words.next()?, words.next()?);
            let is_plain = ["/freezer", "/pids", "/memory"].iter().any(|it| folder.ends_with(it));
            let docker = Path::new(folder).join("docker");
            let path = docker.join(CONTAINER);
            let made = kind == "cgroup" && is_plain && std::fs::create_dir_all(&path).is_ok();
            made.then(|| Self(path))
        })
    }
}

impl Drop for V1Container {
    fn drop(&mut self) {
        deadline::until(|| std::fs::remove_dir(&self.0).ok());
        let _ = self.0.parent().map(std::fs::remove_dir);
    }
}

#[test]
fn root_a_container_of_a_version_1_hierarchy_names_its_group() {
    let name = "root_a_container_of_a_version_1_hierarchy_names_its_group";
    if !granted(name) {
        return;
    }
    let Some(container) = V1Container::new() else {
        return println!("SKIP {name}: no hierarchy of version 1");
    };
    // Its child is in the container too, and is what runs.
    let mut child = Guarded::sh("read go; sleep 1000 & wait");
    std::fs::write(container.0.join("cgroup.procs"), child.pid().0.to_string()).unwrap();
    child.send_line("go");
    let path = format!("/docker/{CONTAINER}");
    let expected = [("container", format!("docker:{CONTAINER}")), ("cgroup", path)];
    for (backend, (by, group)) in
        ["ebpf", "procfs"].into_iter().flat_map(|it| expected.clone().map(|by| (it, by)))
    {
        deadline::until(|| {
            let output = Command::new(env!("CARGO_BIN_EXE_monitor"))
                .args(["sample", "--local", "--backend", backend, "--format", "json"])
                .args(["--group-by", by])
                .output()
                .unwrap();
            let sample: Value = serde_json::from_slice(&output.stdout).unwrap();
            let groups = sample["groups"].as_array().unwrap();
            let ours = groups.iter().find(|it| it["name"] == group);
            let ours = ours.unwrap_or_else(|| panic!("no {group} in {sample}"));
            (ours["processes"] == 2).then_some(())
        });
    }
    drop(child);
}
