//! What this kernel serves: every capability by some hook, or with a reason.

use super::privilege::granted;
use super::workload::is_forbidden;
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::probe::Health;
use monitor_model::read_spec::Capability;

/// The first kernel that serves a capability as exactly as it can be; `None` for what no kernel
/// does yet.
fn served_since(capability: Capability) -> Option<(u32, u32)> {
    match capability {
        Capability::LibraryCalls => None,
        // Storage of sockets and of tasks for programs of tracepoints.
        Capability::Tcp | Capability::RunQueue => Some((5, 11)),
        // Tracepoints of every call on every socket.
        Capability::Sockets => Some((6, 3)),
        _ => Some((5, 10)),
    }
}

fn release() -> (u32, u32) {
    let uname = rustix::system::uname();
    let mut numbers = uname.release().to_str().unwrap().split(['.', '-']).map(str::parse);
    (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap())
}

#[test]
fn root_every_requested_capability_is_active_or_has_a_reason() {
    if !granted("root_every_requested_capability_is_active_or_has_a_reason") {
        return;
    }
    let mut backend = Ebpf::open(Capability::ALL, 0).unwrap();
    for probe in backend.probes() {
        println!("{}: {:?}\n    {}", probe.capability.name(), probe.health, probe.hooks.join(" "));
        let served = matches!(probe.health, Health::Active | Health::Fallback { .. });
        assert_eq!(served, !probe.hooks.is_empty(), "{probe:?}");
        let forbidden = matches!(&probe.health, Health::Fallback { why, .. } if is_forbidden(why));
        let expected = served_since(probe.capability).is_some_and(|since| release() >= since);
        if expected && !forbidden {
            assert!(served && !probe.degraded(), "{probe:?}");
        }
    }
    let calls = backend.examine().into_iter().find(|it| it.capability == Capability::LibraryCalls);
    let calls = calls.unwrap();
    assert_eq!((&calls.health, calls.events >= Some(100)), (&Health::Active, true), "{calls:?}");
    assert_eq!(calls.hooks, ["uprobe"]);
    assert!(calls.cost.is_some_and(|cost| cost.ns_per_event > 0.0), "{calls:?}");
    let snapshot = &backend.probes()[0];
    assert_eq!((snapshot.capability, &snapshot.health), (Capability::Snapshot, &Health::Active));
}
