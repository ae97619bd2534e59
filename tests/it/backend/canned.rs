//! The test backend keeps the contract too.

use super::contract;
use monitor::backend::canned::Canned;

#[test]
fn the_fixed_world_keeps_the_contract() {
    contract::check(&mut Canned::fixed());
}

#[test]
fn a_scripted_world_keeps_the_contract() {
    let text = "process 7 cmdline=x cpu_ns/s=1s\nthread 7 8\ncpu 0 user_ns=1\nat 3s process 9\n\
        at 5s end 9\nnet lo received_bytes=1";
    contract::check(&mut Canned::scripted(text).unwrap());
}

#[test]
fn a_wrong_script_names_its_line() {
    let error = Canned::scripted("process 7\nprocess 8 cpu=1").unwrap_err();
    assert_eq!(error.to_string(), "line 2 of the script: cpu: no such field");
}
