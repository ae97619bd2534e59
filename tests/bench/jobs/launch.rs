//! A launch whose ranks are held in `MPI_Init`, against one without: the time until the last rank
//! is about to call it. And a launch by our own PMIx host, against one by PRRTE.

use super::fixture::{build, fetched};
use super::rank::monotonic_ns;
use crate::measure::median;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const RANKS: usize = 8;
const PAIRS: usize = 20;

/// What starts ranks, and of which library they are.
struct Runtime {
    name: &'static str,
    library: Library,
    /// The launcher with its words; empty for our host.
    starter: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Library {
    OpenMpi4,
    OpenMpi5,
    Mpich4,
}

const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "Open MPI 4",
        library: Library::OpenMpi4,
        starter: &["/usr/bin/mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    },
    Runtime { name: "MPICH", library: Library::Mpich4, starter: &["/usr/bin/mpiexec.mpich"] },
    PRRTE,
    NATIVE,
    Runtime { name: "monitor, Open MPI 4", library: Library::OpenMpi4, starter: &[] },
];
const PRRTE: Runtime = Runtime {
    name: "Open MPI 5",
    library: Library::OpenMpi5,
    starter: &["openmpi/bin/mpirun", "--oversubscribe"],
};
const NATIVE: Runtime =
    Runtime { name: "monitor, Open MPI 5", library: Library::OpenMpi5, starter: &[] };

/// Prints the ratios.
pub fn run() {
    for runtime in RUNTIMES {
        let Some(program) = runtime.program() else { continue };
        let [without, with] =
            in_turn([&|| runtime.launch(&program, false), &|| runtime.launch(&program, true)]);
        let text = format!("launch: {RANKS} ranks of {} until MPI_Init", runtime.name);
        line(&text, without, "ms", Bar::None);
        line("  with --stop init", with, "ms", Bar::None);
        line("  by that without", with / without, "x", Bar::AtMost(1.25));
    }
    let Some(program) = PRRTE.program() else { return };
    let [prrte, native] =
        in_turn([&|| PRRTE.launch(&program, false), &|| NATIVE.launch(&program, false)]);
    line("launch: monitor, by PRRTE", native / prrte, "x", Bar::AtMost(1.0));
}

/// The medians of two launches in turn.
fn in_turn(launches: [&dyn Fn() -> f64; 2]) -> [f64; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        for (launch, all) in launches.iter().zip(&mut all) {
            all.push(launch());
        }
    }
    all.map(median)
}

impl Runtime {
    /// The program of the ranks, if compiler and launcher are here.
    fn program(&self) -> Option<PathBuf> {
        let compiler = match self.library {
            Library::OpenMpi4 => PathBuf::from("/usr/bin/mpicc.openmpi"),
            Library::OpenMpi5 => fetched("openmpi/bin/mpicc"),
            Library::Mpich4 => PathBuf::from("/usr/bin/mpicc.mpich"),
        };
        if !compiler.exists() {
            println!("  launch: {} needs {}", self.name, compiler.display());
            return None;
        }
        let mut command = Command::new(compiler);
        self.set_environment(&mut command);
        Some(build(&mut command, "init.c"))
    }

    fn set_environment(&self, command: &mut Command) {
        if self.library == Library::OpenMpi5 {
            let libraries =
                ["openmpi/lib", "openmpi/lib/openmpi"].map(|it| fetched(it).display().to_string());
            command
                .env("LD_LIBRARY_PATH", libraries.join(":"))
                .env("OPAL_PREFIX", fetched("openmpi"));
            for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                command.env(name, "1");
            }
        }
    }

    /// The time until the last rank was about to call `MPI_Init`, ms.
    fn launch(&self, program: &Path, is_held: bool) -> f64 {
        let begin = monotonic_ns();
        let mut command = Command::new(MONITOR);
        command.args(["job", "launch"]);
        if is_held {
            command.args(["--stop", "init"]);
        }
        match self.starter {
            // A daemon of Slurm may run here.
            [] => command.args(["-n", &RANKS.to_string(), "--"]).env("SLURM_JOB_ID", "7"),
            [launcher, words @ ..] => {
                let launcher =
                    if launcher.starts_with('/') { launcher.into() } else { fetched(launcher) };
                command.arg("--").arg(launcher).args(words).args(["-n", &RANKS.to_string()])
            }
        };
        self.set_environment(&mut command);
        command.arg(program).arg("clock").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = 0;
        for _ in 0..RANKS {
            let line = lines.next().unwrap().unwrap();
            last = last.max(line.strip_prefix("begins ").unwrap().parse::<u64>().unwrap());
        }
        let mut notices = BufReader::new(child.stderr.take().unwrap());
        if is_held {
            let mut notice = String::new();
            let _bytes = notices.read_line(&mut notice).unwrap();
            let id = notice.trim_end().rsplit(' ').next().unwrap();
            let released = Command::new(MONITOR).args(["job", "release", id]).output().unwrap();
            assert!(released.status.success(), "{notice}");
        }
        assert_eq!(lines.count(), RANKS);
        let mut rest = String::new();
        let _bytes = notices.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{rest}");
        (last - begin) as f64 / 1e6
    }
}
