//! `monitor job query` on a job of `mpirun` of Open MPI 5, which ends only when its tools have
//! left: whatever they do, it ends with its job.

use super::gate::{processes, ranks};
use super::runtime::CaseRuntime;
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use std::process::{Command, Stdio};

const RANKS: usize = 2;

/// A job whose ranks wait for a file.
struct WaitingJob {
    folder: Folder,
    launcher: Guarded,
}

impl WaitingJob {
    fn start(test: &str) -> Option<Self> {
        // Without privilege no test loads BPF programs, which would see the processes of this one.
        let _turn = rustix::process::geteuid().is_root() && granted(test);
        let program = Self::runtime().built(test)?;
        let (folder, words) = (Folder::new(), Self::runtime().launcher(RANKS));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).arg(folder.join("gate")).arg("sum");
        command.stderr(Stdio::null());
        set_environment(&mut command, &folder);
        let job = Self { launcher: Guarded::run(&mut command), folder };
        until(|| (ranks(&job.gate()).len() == RANKS).then_some(()));
        Some(job)
    }

    fn runtime() -> &'static CaseRuntime {
        CaseRuntime::named("openmpi5")
    }

    fn gate(&self) -> String {
        self.folder.join("gate").display().to_string()
    }

    /// A query that runs.
    fn query(&self) -> Guarded {
        let mut command = monitor();
        command.args(["job", "query", &self.launcher.pid().0.to_string(), "namespaces"]);
        set_environment(&mut command, &self.folder);
        Guarded::run(&mut command)
    }

    /// Waits for the end of the launcher, which removes its folder; its exit code.
    fn end(&mut self) -> Option<i32> {
        let status = until(|| self.launcher.0.try_wait().unwrap());
        assert!(processes(&self.gate()).is_empty());
        let left = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let left: Vec<_> = left.map(|it| it.file_name()).filter(|it| *it != "gate").collect();
        assert!(left.is_empty(), "{left:?}");
        status.code()
    }
}

fn set_environment(command: &mut Command, folder: &Folder) {
    WaitingJob::runtime().set_environment(command);
    command.env("TMPDIR", folder.path());
}

#[test]
fn a_job_ends_after_queries_that_left_in_the_same_moment() {
    const TEST: &str = "a_job_ends_after_queries_that_left_in_the_same_moment";
    let Some(mut job) = WaitingJob::start(TEST) else { return };
    let mut queries = [job.query(), job.query()];
    for query in &mut queries {
        let line = query.line();
        assert!(line.starts_with("namespaces\tprterun-"), "{line}");
        assert_eq!(until(|| query.0.try_wait().unwrap()).code(), Some(0));
    }
    std::fs::write(job.gate(), "").unwrap();
    assert_eq!(job.end(), Some(0));
}
