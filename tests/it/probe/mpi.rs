//! Two ranks of Open MPI on this machine, for a test.

use super::fixture::folder;
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use monitor::model::id::Pid;
use std::path::Path;
use std::process::Command;

const COMPILER: &str = "/usr/bin/mpicc.openmpi";
const STARTER: &str = "/usr/bin/mpirun.openmpi";

/// The ranks, and who has started them.
pub struct Ranks {
    starter: Guarded,
    /// Their processes, by rank.
    pub pids: [Pid; 2],
}

impl Ranks {
    /// Starts them; says why not where there is no Open MPI, or fails where a skip is not allowed.
    pub fn start(test: &str) -> Option<Self> {
        if !Path::new(COMPILER).exists() || !Path::new(STARTER).exists() {
            skip(test, "needs Open MPI (apt install openmpi-bin libopenmpi-dev)");
            return None;
        }
        let program = folder(test).join("ranks");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code/mpi.c");
        let built = Command::new(COMPILER).arg("-O1").arg("-o").arg(&program).arg(source).output();
        let built = built.unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let words = "--allow-run-as-root --oversubscribe -np 2 --mca pml ob1 --mca btl self,vader";
        let mut command = Command::new(STARTER);
        command.args(words.split(' ')).arg(program);
        let mut starter = Guarded::run(&mut command);
        let mut pids = [Pid(0); 2];
        for _ in 0..2 {
            let line = starter.line();
            let words: Vec<&str> = line.split(' ').collect();
            let [_, rank, pid] = words[..] else { panic!("{line}") };
            pids[rank.parse::<usize>().unwrap()] = Pid(pid.parse().unwrap());
        }
        Some(Self { starter, pids })
    }

    /// Tells them to do something, and waits until it is done.
    pub fn do_it(&mut self, what: &str) {
        self.starter.tell(what);
        assert_eq!(self.starter.line(), "done");
    }
}
