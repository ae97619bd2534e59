//! What was loaded goes when the backend does.

use super::privilege::granted;
use crate::deadline;
use monitor::backend::ebpf::Ebpf;
use monitor::model::want::Capability;
use std::collections::BTreeSet;

/// Ids of all programs in the kernel. One that is unloaded while we look is not there any more.
pub fn programs() -> BTreeSet<u32> {
    aya::programs::loaded_programs().flatten().map(|program| program.id()).collect()
}

#[test]
fn root_a_dropped_backend_leaves_no_program_behind() {
    if !granted("root_a_dropped_backend_leaves_no_program_behind") {
        return;
    }
    let before = programs();
    let backend = Ebpf::open(Capability::ALL, 0).unwrap();
    // Other tests load programs too; theirs go as they end.
    let ours: BTreeSet<u32> = programs().difference(&before).copied().collect();
    assert!(ours.len() >= 15, "{ours:?}");
    drop(backend);
    deadline::until(|| programs().is_disjoint(&ours).then_some(()));
}
