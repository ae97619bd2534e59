//! How `job launch` starts ranks: by this program, by a PMIx server that runs, or by a launcher.
//!
//! In: the arguments. Out: one of them; or why the arguments do not fit it.

use super::args::JobLaunchArgs;
use crate::cli::exit::Failure;
use monitor_jobs::{LauncherRole, Runtime};
use std::path::Path;

/// Who starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchMethod {
    /// This program, as their PMIx host.
    Native(u32),
    /// A PMIx server that runs, such as `prte`.
    Pmix(u32),
    /// The command line: that of a launcher, or of a script that starts one.
    Launcher,
}

impl LaunchMethod {
    /// The one that the arguments ask for.
    ///
    /// # Errors
    /// If the number of ranks or the program does not fit `--with`.
    pub fn from_args(args: &JobLaunchArgs) -> Result<Self, Failure> {
        let with = args.with.as_str();
        let is_launcher = |wanted: fn(Runtime) -> bool| {
            let name = Path::new(&args.command[0]).file_name().unwrap_or_default();
            let found = Runtime::of_program(&name.to_string_lossy());
            found.is_some_and(|(it, role)| role == LauncherRole::Launcher && wanted(it))
        };
        let no_launcher = |known: &str| {
            let program = args.command[0].display();
            Failure::usage(format!("{program} is no {with}: --with {with} needs {known}"))
        };
        match (with, args.ranks) {
            ("native" | "auto", Some(ranks)) => Ok(Self::Native(ranks)),
            ("pmix", Some(ranks)) => Ok(Self::Pmix(ranks)),
            ("native" | "pmix", None) => {
                Err(Failure::usage(format!("--with {with} needs -n, the number of ranks")))
            }
            ("auto", None) => Ok(Self::Launcher),
            (_, Some(_)) => Err(Failure::usage(format!(
                "-n is not for --with {with}: give the number to the launcher, as in `-- {with} \
                 -n 4 PROGRAM`"
            ))),
            ("srun", None) if is_launcher(|it| it == Runtime::Slurm) => Ok(Self::Launcher),
            ("srun", None) => Err(no_launcher("srun")),
            (_, None) if is_launcher(|it| !matches!(it, Runtime::Slurm | Runtime::Native)) => {
                Ok(Self::Launcher)
            }
            (_, None) => Err(no_launcher("mpirun, mpiexec, orterun, prterun or mpiexec.hydra")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: JobLaunchArgs,
    }

    #[track_caller]
    fn check(words: &str, want: Result<LaunchMethod, &str>) {
        let args = Line::parse_from(["launch"].into_iter().chain(words.split(' '))).args;
        let got = LaunchMethod::from_args(&args).map_err(|it| it.message);
        assert_eq!(got.as_ref().map_err(String::as_str), want.as_ref().map_err(|it| *it));
    }

    #[test]
    fn the_number_of_ranks_or_the_program_says_how() {
        check("-n 3 -- ./a", Ok(LaunchMethod::Native(3)));
        check("--with native -n 3 -- ./a", Ok(LaunchMethod::Native(3)));
        check("--with pmix -n 3 -- ./a", Ok(LaunchMethod::Pmix(3)));
        check("-- ./starts_mpirun.sh", Ok(LaunchMethod::Launcher));
        check("--with mpirun -- /usr/bin/mpiexec.hydra -n 2 ./a", Ok(LaunchMethod::Launcher));
        check("--with srun -- srun -n 2 ./a", Ok(LaunchMethod::Launcher));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        check("--with native -- ./a", Err("--with native needs -n, the number of ranks"));
        let why = "-n is not for --with mpirun: give the number to the launcher, as in `-- mpirun \
                   -n 4 PROGRAM`";
        check("--with mpirun -n 2 -- mpirun ./a", Err(why));
        check("--with srun -- mpirun ./a", Err("mpirun is no srun: --with srun needs srun"));
        let why = "./a is no mpirun: --with mpirun needs mpirun, mpiexec, orterun, prterun or \
                   mpiexec.hydra";
        check("--with mpirun -- ./a", Err(why));
    }
}
