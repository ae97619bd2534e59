//! How a parallel job is launched: by this program, by a PMIx server that runs, or by a launcher.
//!
//! In: what a user asks for, a number of ranks, and a program. Out: the method; or why they do not
//! fit each other.

use crate::runtime::Runtime;
use std::ffi::OsStr;
use std::path::Path;

/// What a user can ask for.
pub const METHODS: [&str; 5] = ["auto", "native", "pmix", "mpirun", "srun"];

/// Which program starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchMethod {
    /// This program, which is then their PMIx host.
    Native(u32),
    /// A PMIx server that runs, such as `prte`.
    Pmix(u32),
    /// A launcher, or a script that starts one.
    Launcher,
}

/// Why the arguments do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// A name that is not in [`METHODS`].
    #[error("{0:?} is no way to launch: there are auto, native, pmix, mpirun and srun")]
    Unknown(String),
    /// Ranks without a launcher have no number.
    #[error("`{0}` needs the number of ranks")]
    NoNumber(String),
    /// A launcher has the number in its own arguments.
    #[error("`{0}` takes no number of ranks: give it to the launcher, as in {0} -n 4 PROGRAM")]
    Number(String),
    /// The program is another one.
    #[error("{program} is not {method}: expected {expected}")]
    NoLauncher {
        /// The program.
        program: String,
        /// What the user asks for.
        method: String,
        /// The programs that it can be.
        expected: &'static str,
    },
}

impl LaunchMethod {
    /// The method for a name, a number of ranks, and the program: with a number, that of the ranks.
    ///
    /// # Errors
    /// If they do not fit each other.
    pub fn choose(name: &str, ranks: Option<u32>, program: &OsStr) -> Result<Self, MethodError> {
        let runtime = || {
            let file = Path::new(program).file_name().unwrap_or_default();
            Runtime::launched_by(&file.to_string_lossy())
        };
        let no_launcher = |expected| MethodError::NoLauncher {
            program: program.display().to_string(),
            method: name.to_owned(),
            expected,
        };
        match (name, ranks) {
            ("native" | "auto", Some(ranks)) => Ok(Self::Native(ranks)),
            ("pmix", Some(ranks)) => Ok(Self::Pmix(ranks)),
            ("auto", None) => Ok(Self::Launcher),
            ("native" | "pmix", None) => Err(MethodError::NoNumber(name.to_owned())),
            ("mpirun" | "srun", Some(_)) => Err(MethodError::Number(name.to_owned())),
            ("srun", None) => match runtime() {
                Some(Runtime::Slurm) => Ok(Self::Launcher),
                _ => Err(no_launcher("srun")),
            },
            ("mpirun", None) => match runtime() {
                None | Some(Runtime::Slurm | Runtime::Native | Runtime::Session) => {
                    Err(no_launcher("mpirun, mpiexec, orterun, prterun or mpiexec.hydra"))
                }
                Some(_) => Ok(Self::Launcher),
            },
            _ => Err(MethodError::Unknown(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, ranks: Option<u32>, program: &str, want: Result<LaunchMethod, &str>) {
        let got = LaunchMethod::choose(name, ranks, program.as_ref()).map_err(|it| it.to_string());
        assert_eq!(got.as_ref().map_err(String::as_str), want.as_ref().map_err(|it| *it));
    }

    #[test]
    fn the_number_of_ranks_or_the_program_says_how() {
        check("auto", Some(3), "./a", Ok(LaunchMethod::Native(3)));
        check("native", Some(3), "./a", Ok(LaunchMethod::Native(3)));
        check("pmix", Some(3), "./a", Ok(LaunchMethod::Pmix(3)));
        check("auto", None, "./starts_mpirun.sh", Ok(LaunchMethod::Launcher));
        check("mpirun", None, "/usr/bin/mpiexec.hydra", Ok(LaunchMethod::Launcher));
        check("srun", None, "srun", Ok(LaunchMethod::Launcher));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        check("native", None, "./a", Err("`native` needs the number of ranks"));
        let why = "`mpirun` takes no number of ranks: give it to the launcher, as in mpirun -n 4 \
                   PROGRAM";
        check("mpirun", Some(2), "mpirun", Err(why));
        check("srun", None, "mpirun", Err("mpirun is not srun: expected srun"));
        let why = "./a is not mpirun: expected mpirun, mpiexec, orterun, prterun or mpiexec.hydra";
        check("mpirun", None, "./a", Err(why));
        check("mpirun", None, "orted", Err(&why.replace("./a", "orted")));
        let why = "\"x\" is no way to launch: there are auto, native, pmix, mpirun and srun";
        check("x", None, "./a", Err(why));
    }
}
