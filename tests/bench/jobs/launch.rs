//! A launch whose ranks are held in `MPI_Init`, against one without: the time until the last rank
//! is about to call it.

use super::fixture::build;
use super::rank::monotonic_ns;
use crate::measure::median;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

const RANKS: usize = 8;
const PAIRS: usize = 20;

/// An MPI library of Debian.
struct Library {
    name: &'static str,
    compiler: &'static str,
    starter: &'static [&'static str],
}

const LIBRARIES: &[Library] = &[
    Library {
        name: "Open MPI",
        compiler: "/usr/bin/mpicc.openmpi",
        starter: &["/usr/bin/mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    },
    Library {
        name: "MPICH",
        compiler: "/usr/bin/mpicc.mpich",
        starter: &["/usr/bin/mpiexec.mpich"],
    },
];

/// Prints the ratios.
pub fn run() {
    for library in LIBRARIES {
        let name = library.name;
        if !Path::new(library.compiler).exists() {
            println!("  launch: needs {} of {name}", library.compiler);
            continue;
        }
        let program = build(library.compiler, "init.c");
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            without.push(launch(library, &program, false));
            with.push(launch(library, &program, true));
        }
        let _removed = std::fs::remove_file(&program);
        let (without, with) = (median(without), median(with));
        line(&format!("launch: {RANKS} ranks of {name} until MPI_Init"), without, "ms", Bar::None);
        line("  with --stop init", with, "ms", Bar::None);
        line("  by that without", with / without, "x", Bar::AtMost(1.25));
    }
}

/// The time until the last rank was about to call `MPI_Init`, ms.
fn launch(library: &Library, program: &Path, is_held: bool) -> f64 {
    let begin = monotonic_ns();
    let mut command = Command::new(MONITOR);
    command.args(["job", "launch"]);
    if is_held {
        command.args(["--stop", "init"]);
    }
    command.arg("--").args(library.starter).args(["-n", &RANKS.to_string()]);
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
