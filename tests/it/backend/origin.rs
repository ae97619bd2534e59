//! Ranks of real processes, found by their environment.

use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_model::field::ProcessField;
use monitor_model::id::Pid;
use monitor_model::job::Rank;
use monitor_model::read_spec::ReadSpec;
use monitor_sampling::job::{JobTable, RankSelector};
use std::process::{Child, Command, Stdio};

/// A process of that rank, which ends with its input.
fn rank(namespace: &str, rank: u32) -> Child {
    let mut command = Command::new("cat");
    command.env("PMIX_NAMESPACE", namespace).env("PMIX_RANK", rank.to_string());
    command.stdin(Stdio::piped()).spawn().unwrap()
}

fn read_jobs(backend: &mut dyn Backend, jobs: &mut JobTable) {
    let want = ReadSpec { processes: true, costly: vec![ProcessField::Job], ..ReadSpec::default() };
    let mut sample = backend.read(&want).unwrap();
    backend.describe(&mut sample.processes, &want);
    jobs.learn(&mut sample);
}

fn found(jobs: &JobTable, namespace: &str) -> Vec<(u32, Pid)> {
    let all = jobs.registry().find(namespace, RankSelector::All);
    all.into_iter().map(|(rank, id)| (rank, id.pid)).collect()
}

/// What any backend that sees real processes must do.
pub fn check(backend: &mut dyn Backend) {
    let namespace = format!("test-{}-{}", backend.kind().name(), std::process::id());
    let mut ranks: Vec<Child> = (0..3).map(|it| rank(&namespace, it)).collect();
    let pids: Vec<_> = ranks.iter().map(|it| Pid(it.id())).collect();
    let mut jobs = JobTable::default();
    read_jobs(backend, &mut jobs);
    let want: Vec<_> = (0..).zip(pids).collect();
    assert_eq!(found(&jobs, &namespace), want);
    let (_, id) = jobs.registry().find(&namespace, RankSelector::Rank(1))[0];
    let own = Rank { namespace: namespace.as_str().into(), rank: 1 };
    assert_eq!(jobs.membership(id).unwrap().rank.as_ref(), Some(&own));
    for mut rank in ranks.drain(..) {
        drop(rank.stdin.take());
        assert!(rank.wait().unwrap().success());
    }
}

#[test]
fn ranks_are_found_by_their_environment() {
    check(&mut Procfs::open(Root::default()).unwrap());
}
