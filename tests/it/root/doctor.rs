//! What this kernel serves: every capability by some hook, or with a reason.

use super::privilege::granted;
use super::workload::ebpf;
use monitor::backend::Backend as _;
use monitor::model::probe::Health;
use monitor::model::want::Capability;

#[test]
fn root_every_capability_that_is_asked_for_is_served_or_says_why() {
    let Some(_turn) = granted("root_every_capability_that_is_asked_for_is_served_or_says_why")
    else {
        return;
    };
    let mut backend = ebpf(Capability::ALL);
    for probe in backend.probes() {
        println!("{}: {:?}\n    {}", probe.capability.name(), probe.health, probe.hooks.join(" "));
        let served = matches!(probe.health, Health::Active | Health::Fallback { .. });
        assert_eq!(served, !probe.hooks.is_empty(), "{probe:?}");
    }
    let snapshot = &backend.probes()[0];
    assert_eq!((snapshot.capability, &snapshot.health), (Capability::Snapshot, &Health::Active));
}
