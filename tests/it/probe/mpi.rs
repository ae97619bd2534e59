//! Starts ranks of an MPI program on this machine, for a test.

use super::fixture::folder;
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use monitor_model::id::Pid;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// An MPI library, with the programs that Debian has for it.
pub struct Library {
    compiler: &'static str,
    starter: &'static str,
    words: &'static [&'static str],
    packages: &'static str,
}

/// Open MPI with its own matching.
pub const OPEN_MPI: Library = Library {
    compiler: "/usr/bin/mpicc.openmpi",
    starter: "/usr/bin/mpirun.openmpi",
    words: &[
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        "self,vader",
    ],
    packages: "Open MPI (apt install openmpi-bin libopenmpi-dev)",
};
/// MPICH.
pub const MPICH: Library = Library {
    compiler: "/usr/bin/mpicc.mpich",
    starter: "/usr/bin/mpirun.mpich",
    words: &[],
    packages: "MPICH (apt install mpich libmpich-dev)",
};

impl Library {
    /// Compiles a fixture. Without the library the test is skipped, or fails if skips are not
    /// allowed.
    pub fn build(&self, test: &str, source: &str) -> Option<PathBuf> {
        if [self.compiler, self.starter].iter().any(|it| !Path::new(it).exists()) {
            skip(test, &format!("needs {}", self.packages));
            return None;
        }
        Some(compile(self.compiler, test, source, &[]))
    }

    /// The command line that starts `n` ranks of a program.
    pub fn command_line(&self, n: usize, program: &[&str]) -> Vec<String> {
        let number = n.to_string();
        let words = [&[self.starter], self.words, &["-np", &number], program].concat();
        words.into_iter().map(str::to_owned).collect()
    }
}

/// Compiles a fixture with a compiler.
pub fn compile(compiler: &str, test: &str, source: &str, options: &[&str]) -> PathBuf {
    let program = folder(test).join("ranks");
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code").join(source);
    let mut command = Command::new(compiler);
    command.arg("-O1").args(options).arg("-o").arg(&program).arg(code);
    let built = command.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Running ranks, with the process that started them.
pub struct Ranks {
    starter: Guarded,
    /// The processes, by rank.
    pub pids: Vec<Pid>,
}

impl Ranks {
    /// Starts two ranks. Without the library the test is skipped, or fails if skips are not
    /// allowed.
    pub fn start(test: &str, library: &Library) -> Option<Self> {
        Self::start_many(test, library, 2)
    }

    /// Starts `n` ranks.
    pub fn start_many(test: &str, library: &Library, n: usize) -> Option<Self> {
        let program = library.build(test, "mpi.c")?;
        let line = library.command_line(n, &[program.to_str().unwrap()]);
        Some(Self::run_by(Command::new(&line[0]).args(&line[1..]), n))
    }

    /// Starts two ranks as this user.
    pub fn start_as(test: &str, library: &Library, user: u32) -> Option<Self> {
        let program = library.build(test, "mpi.c")?;
        let line = library.command_line(2, &[program.to_str().unwrap()]);
        let mut command = Command::new(&line[0]);
        command.uid(user).gid(user).current_dir("/").env("HOME", "/tmp").args(&line[1..]);
        Some(Self::run_by(&mut command, 2))
    }

    /// Runs a launcher of `n` ranks.
    fn run_by(command: &mut Command, n: usize) -> Self {
        let mut starter = Guarded::run(command);
        let mut pids = vec![Pid(0); n];
        for _ in 0..n {
            let line = starter.line();
            let words: Vec<&str> = line.split(' ').collect();
            let [_, rank, pid] = words[..] else { panic!("{line}") };
            pids[rank.parse::<usize>().unwrap()] = Pid(pid.parse().unwrap());
        }
        Self { starter, pids }
    }

    /// Sends the ranks a command, and waits until it is done.
    pub fn run(&mut self, what: &str) {
        self.starter.send_line(what);
        assert_eq!(self.starter.line(), "done");
    }

    /// Sends the ranks a command.
    pub fn begin(&mut self, what: &str) {
        self.starter.send_line(what);
    }

    /// The process that started them.
    pub fn starter_pid(&self) -> Pid {
        self.starter.pid()
    }

    /// How the program that started them has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.starter.0.try_wait().unwrap()
    }

    /// Closes the standard input, so that the ranks call `MPI_Finalize`.
    pub fn end(&mut self) {
        drop(self.starter.0.stdin.take());
        assert!(self.starter.0.wait().unwrap().success());
    }
}
