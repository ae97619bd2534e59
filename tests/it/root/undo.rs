//! Loaded programs are removed with the backend.

use super::privilege::granted;
use crate::deadline;
use monitor_loader::Ebpf;
use monitor_model::read_spec::Capability;
use std::collections::BTreeSet;

/// Ids of the programs that a process holds, by descriptors of programs or of links.
pub fn programs_of(pid: u32) -> BTreeSet<u32> {
    let held = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    // A descriptor that is closed meanwhile is skipped.
    let texts = held.filter_map(|it| std::fs::read_to_string(it.path()).ok());
    let of =
        |text: String| text.lines().find_map(|it| it.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(of).collect()
}

/// Ids of all programs in the kernel, without those that are unloaded meanwhile.
pub fn programs() -> BTreeSet<u32> {
    aya::programs::loaded_programs().flatten().map(|program| program.id()).collect()
}

#[test]
fn root_a_dropped_backend_leaves_no_program_behind() {
    if !granted("root_a_dropped_backend_leaves_no_program_behind") {
        return;
    }
    let own = || programs_of(std::process::id());
    let before = own();
    let backend = Ebpf::open(Capability::ALL, 0).unwrap();
    let ours: BTreeSet<u32> = own().difference(&before).copied().collect();
    assert!(ours.len() >= 15, "{ours:?}");
    drop(backend);
    deadline::until(|| programs().is_disjoint(&ours).then_some(()));
}
