//! The runtimes with which cases and soaks run: how ranks are compiled, and started.
//!
//! Those that Debian does not have are in `target/mpi`, where `cargo xtask wheels` puts them.

use super::slurm_node::SlurmNode;
use crate::probe::fixture::folder;
use crate::root::privilege::skip;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A runtime of MPI.
pub struct CaseRuntime {
    /// Its name in cases.
    pub name: &'static str,
    /// The runtime, as `job list` names it.
    pub runtime: &'static str,
    /// And a sentence.
    pub title: &'static str,
    pub start: Start,
    mpi: Mpi,
}

/// What starts ranks.
#[derive(Clone, Copy, PartialEq)]
pub enum Start {
    /// A launcher, with its words before the number of ranks. One of `cargo xtask wheels` has a
    /// relative path.
    Launcher(&'static [&'static str]),
    /// This program.
    Native,
    Slurm,
}

/// The library of the ranks.
#[derive(Clone, Copy, PartialEq)]
enum Mpi {
    OpenMpi4,
    OpenMpi5,
    Mpich4,
    Mpich5,
    Intel,
}

const OPEN_MPI_5: Start = Start::Launcher(&["openmpi/bin/mpirun", "--oversubscribe"]);
const OPEN_MPI_4: Start =
    Start::Launcher(&["/usr/bin/mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]);

const fn hydra(name: &'static str, launcher: &'static [&'static str], mpi: Mpi) -> CaseRuntime {
    let start = Start::Launcher(launcher);
    CaseRuntime { name, runtime: "hydra", title: "MPICH Hydra", start, mpi }
}

const fn native(name: &'static str, mpi: Mpi) -> CaseRuntime {
    CaseRuntime { name, runtime: "native", title: "monitor", start: Start::Native, mpi }
}

/// All runtimes.
pub static RUNTIMES: [CaseRuntime; 8] = [
    CaseRuntime {
        name: "openmpi4",
        runtime: "openmpi4",
        title: "Open MPI 4",
        start: OPEN_MPI_4,
        mpi: Mpi::OpenMpi4,
    },
    CaseRuntime {
        name: "openmpi5",
        runtime: "prrte",
        title: "Open MPI 5/PRRTE",
        start: OPEN_MPI_5,
        mpi: Mpi::OpenMpi5,
    },
    hydra("mpich4", &["/usr/bin/mpiexec.mpich"], Mpi::Mpich4),
    hydra("mpich5", &["mpich/bin/mpiexec"], Mpi::Mpich5),
    hydra("intel", &["impi/bin/mpiexec.hydra"], Mpi::Intel),
    native("native4", Mpi::OpenMpi4),
    native("native5", Mpi::OpenMpi5),
    CaseRuntime {
        name: "slurm",
        runtime: "slurm",
        title: "Slurm step",
        start: Start::Slurm,
        mpi: Mpi::OpenMpi4,
    },
];

/// Where `cargo xtask wheels` puts the runtimes that Debian does not have.
pub fn fetched(path: &str) -> PathBuf {
    // The folder for temporary files of tests is in the target folder.
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mpi").join(path)
}

impl CaseRuntime {
    /// The one with this name in cases.
    pub fn named(name: &str) -> &'static Self {
        RUNTIMES.iter().find(|it| it.name == name).unwrap()
    }

    /// Its program of ranks. Without the runtime the test is skipped, or fails if skips are not
    /// allowed.
    pub fn built(&self, test: &str) -> Option<PathBuf> {
        self.built_of(test, "case.c")
    }

    /// The same of another file of `tests/fixture/code`.
    pub fn built_of(&self, test: &str, source: &'static str) -> Option<PathBuf> {
        static BUILT: Mutex<BTreeMap<(&str, &str), PathBuf>> = Mutex::new(BTreeMap::new());
        let (files, packages) = self.mpi.needs();
        let launcher = match self.start {
            Start::Launcher(words) => fetched(words[0]).exists(),
            Start::Native | Start::Slurm => true,
        };
        if !launcher || !files.iter().all(|it| fetched(it).exists()) {
            skip(test, &format!("needs {packages}"));
            return None;
        }
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        Some(built.entry((self.name, source)).or_insert_with(|| self.compile(source)).clone())
    }

    fn compile(&self, source: &str) -> PathBuf {
        let folder = folder(&format!("{}-{}", source.trim_end_matches(".c"), self.name));
        let program = folder.join("ranks");
        let mut command = self.mpi.compiler();
        let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code").join(source);
        command.args(["-O1", "-g", "-o"]).arg(&program).arg(code).args(self.mpi.library());
        let built = command.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    /// The words that start `n` ranks, without those of the ranks; none for this program.
    pub fn launcher(&self, n: usize) -> Vec<String> {
        let n = n.to_string();
        match self.start {
            Start::Launcher([launcher, words @ ..]) => {
                let launcher = fetched(launcher).display().to_string();
                let words = words.iter().copied().chain(["-n", &n]).map(str::to_owned);
                std::iter::once(launcher).chain(words).collect()
            }
            Start::Slurm => ["srun", "--mpi=pmix", "-n", &n].map(str::to_owned).to_vec(),
            Start::Launcher([]) | Start::Native => Vec::new(),
        }
    }

    /// Sets the environment in which its libraries are found.
    pub fn set_environment(&self, command: &mut Command) {
        self.mpi.set_environment(command);
        if self.start == Start::Native {
            // A daemon of Slurm may run here.
            command.env("SLURM_JOB_ID", "7");
        }
    }

    /// A Slurm for it, if it is one; `None` if that cannot run here.
    pub fn node(&self, test: &str) -> Option<Option<SlurmNode>> {
        if self.start != Start::Slurm {
            return Some(None);
        }
        SlurmNode::start(test).map(Some)
    }
}

impl Mpi {
    /// Files, and how they are installed.
    fn needs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::OpenMpi4 => {
                (&["/usr/bin/mpicc.openmpi"], "Open MPI 4 (apt install openmpi-bin libopenmpi-dev)")
            }
            Self::OpenMpi5 => (&["openmpi/VERSION"], "Open MPI 5 (cargo xtask wheels)"),
            Self::Mpich4 => (&["/usr/bin/mpicc.mpich"], "MPICH 4 (apt install mpich libmpich-dev)"),
            Self::Mpich5 => (&["mpich/VERSION"], "MPICH 5 (cargo xtask wheels)"),
            Self::Intel => {
                (&["mpich/VERSION", "impi/VERSION"], "Intel MPI and MPICH 5 (cargo xtask wheels)")
            }
        }
    }

    fn compiler(self) -> Command {
        let mut command = Command::new(match self {
            Self::OpenMpi4 => PathBuf::from("/usr/bin/mpicc.openmpi"),
            Self::OpenMpi5 => fetched("openmpi/bin/mpicc"),
            Self::Mpich4 => PathBuf::from("/usr/bin/mpicc.mpich"),
            Self::Mpich5 | Self::Intel => PathBuf::from("cc"),
        });
        self.set_environment(&mut command);
        command
    }

    /// Words of the compiler for the library, where it does not know them. Intel MPI has the binary
    /// interface of MPICH, and no headers in its package for the run time.
    fn library(self) -> Vec<String> {
        if !matches!(self, Self::Mpich5 | Self::Intel) {
            return Vec::new();
        }
        let path = |name| fetched(name).display().to_string();
        vec![
            format!("-I{}", path("mpich/include")),
            path("mpich/lib/libmpi.so.12"),
            format!("-Wl,-rpath-link,{}", path("mpich/lib/mpich")),
        ]
    }

    fn set_environment(self, command: &mut Command) {
        let folders: &[&str] = match self {
            Self::OpenMpi4 | Self::Mpich4 => return,
            Self::OpenMpi5 => &["openmpi/lib", "openmpi/lib/openmpi"],
            Self::Mpich5 => &["mpich/lib", "mpich/lib/mpich"],
            Self::Intel => &["impi/lib"],
        };
        let paths: Vec<String> =
            folders.iter().map(|it| fetched(it).display().to_string()).collect();
        command.env("LD_LIBRARY_PATH", paths.join(":"));
        match self {
            Self::OpenMpi5 => {
                command.env("OPAL_PREFIX", fetched("openmpi"));
                for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                    command.env(name, "1");
                }
            }
            // Its other fabrics need a library that is not in its package.
            Self::Intel => {
                _ = command.env("I_MPI_ROOT", fetched("impi")).env("I_MPI_FABRICS", "shm")
            }
            Self::OpenMpi4 | Self::Mpich4 | Self::Mpich5 => {}
        }
    }
}
