//! What the kernel verifies for rules.
#![allow(clippy::print_stdout, reason = "says why a test is skipped")]

use super::*;
use crate::fdinfo;
use monitor_backend::rule::HookPoint;
use std::os::fd::AsFd as _;

/// A program with its interpreter has 4,500 to 5,000 instructions.
const ONCE: u64 = 10_000;

/// Skips a test without root, unless it is required.
fn is_root(name: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{name} needs root");
    if !is_root {
        println!("SKIP {name}: needs root");
    }
    is_root
}

fn verified(rules: &KernelRules) -> BTreeSet<&str> {
    let programs = rules.object.ebpf.programs().map(|(name, _)| name);
    programs.filter(|name| rules.object.is_verified(name)).collect()
}

#[test]
fn root_taps_of_calls_load_what_they_need() {
    if !is_root("root_taps_of_calls_load_what_they_need") {
        return;
    }
    let mut rules = KernelRules::open_for_calls(&[CallHook::Entry]).unwrap();
    let needed = BTreeSet::from(["call", "exec", "exit", "fork"]);
    assert_eq!(verified(&rules), needed);
    let _set = rules.make_set(Children::Included).unwrap();
    assert_eq!(verified(&rules), needed, "no small program for the sets besides");
    assert!(verified(&KernelRules::open().unwrap()).is_empty());
}

#[test]
fn root_the_verifier_checks_the_interpreter_once() {
    if !is_root("root_the_verifier_checks_the_interpreter_once") {
        return;
    }
    let mut rules = KernelRules::open().unwrap();
    let probes = [CallHook::Entry, CallHook::Ends, CallHook::Trampoline];
    let types = crate::kernel::types().unwrap();
    rules.hooks.verify_for_calls(&mut rules.object, &probes, &types);
    let set = rules.make_set(Children::Included).unwrap();
    for hook in
        [HookPoint::SignalGenerate, HookPoint::SignalDeliver, HookPoint::Switch, HookPoint::Wakeup]
    {
        let _id = rules.add(&RuleProgram::new(hook, Some(set), Vec::new())).unwrap();
    }
    let mut n_programs = 0;
    for (name, program) in rules.object.ebpf.programs() {
        let Ok(fd) = program.fd() else { continue };
        let info = fdinfo::read(fd.as_fd());
        // 0 before 5.16, which does not report it.
        let n_checked = fdinfo::number(&info, "verified_insns");
        assert!(n_checked <= ONCE, "{n_checked} instructions of {name}");
        n_programs += 1;
    }
    assert_eq!(n_programs, 10);
}
