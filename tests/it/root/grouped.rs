//! Groups of a monitor: what it tells of a cgroup is what the kernel counted there.

use super::conservation::{Cgroup, ENDED, TICK_NS, WORK};
use super::privilege::{granted, skip};
use super::workload::Guarded;
use crate::deadline;
use crate::served::Served;
use crate::socket_session::SocketSession;
use serde_json::{Value, json};

/// What a monitor told of one group, at last.
struct Told {
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

/// Reads until so many have ended in the group; its total never goes backwards.
fn follow(mut client: SocketSession, name: &str) -> Told {
    let (mut cpu_ns, mut samples) = (0, 0);
    deadline::until(|| {
        let event = client.event();
        samples += 1;
        let lost = lost(&event["sample"]);
        let group = event["sample"]["groups"].as_array()?.iter().find(|it| it["name"] == name)?;
        let (now, ended) = (group["cpu_ns"].as_u64()?, group["ended"].as_u64()?);
        assert!(now >= cpu_ns, "{now} after {cpu_ns}");
        cpu_ns = now;
        (ended >= ENDED || lost).then_some(Told { cpu_ns, ended, samples, lost })
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
    let (mut often, mut seldom) = (service.connect(), service.connect());
    let mut child = Guarded::sh(WORK);
    assert_eq!(child.line(), "ready");
    grouped(&mut often, 100_000_000);
    grouped(&mut seldom, 700_000_000);
    let mut rows = service.connect();
    let fields = json!({"fields": ["approximate"], "every_ns": 300_000_000});
    let mut marks = marked(&rows.result("monitor", &fields)["sample"]);
    cgroup.take(&child);
    child.send_line("go");
    let path = cgroup.name();
    let other = path.clone();
    let seldom = std::thread::spawn(move || follow(seldom, &other));
    let often = std::thread::spawn(move || follow(often, &path));
    while !(often.is_finished() && seldom.is_finished()) {
        marks += marked(&rows.event()["sample"]);
    }
    // It may have looked before the other two did.
    marks += marked(&rows.event()["sample"]);
    let told = [often.join().unwrap(), seldom.join().unwrap()];
    let usage_ns = cgroup.usage_ns();
    if told.iter().any(|it| it.lost) {
        return None;
    }
    for Told { cpu_ns, ended, samples, .. } in told {
        let apart = cpu_ns.abs_diff(usage_ns);
        println!("{ended} ended, {marks} marked, {samples} samples: {cpu_ns} ns, apart {apart} ns");
        assert_eq!(ended, ENDED);
        assert!(apart <= usage_ns / 1000 + marks * TICK_NS);
    }
    Some(())
}
