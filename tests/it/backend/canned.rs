//! The test backend keeps the contract too.

use super::contract;
use monitor_backend::Backend as _;
use monitor_backends::canned::Canned;
use monitor_model::field::ProcessField;
use monitor_model::read_spec::ReadSpec;
use monitor_sampling::job::{JobTable, RankSelector};

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
fn a_scripted_process_has_a_job_and_a_rank() {
    let text = "process 7 cgroup=/slurm/uid_0/job_9 $PMIX_NAMESPACE=a $PMIX_RANK=3\nprocess 8";
    let mut backend = Canned::scripted(text).unwrap();
    let want = ReadSpec { processes: true, costly: vec![ProcessField::Job], ..ReadSpec::default() };
    let mut sample = backend.read(&want).unwrap();
    backend.describe(&mut sample.processes, &want);
    let mut jobs = JobTable::default();
    jobs.learn(&mut sample);
    let job = |place: usize| sample.processes[place].text.job.as_deref();
    assert_eq!((job(0), job(1)), (Some("slurm:9"), None));
    assert_eq!(jobs.registry().find("a", RankSelector::All), [(3, sample.processes[0].id)]);
}

#[test]
fn a_wrong_script_names_its_line() {
    let error = Canned::scripted("process 7\nprocess 8 cpu=1").unwrap_err();
    assert_eq!(error.to_string(), "line 2 of the script: cpu: no such field");
    let error = Canned::scripted("process 7 job=x").unwrap_err();
    assert!(error.to_string().contains("it follows from cgroup"), "{error}");
}
