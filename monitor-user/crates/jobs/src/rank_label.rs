//! Labels of ranks: what launchers write before each line of a rank, with an option of theirs.
//!
//! In: the command line of a launcher, lines that it has written. Out: the option, the form of the
//! labels, the rank of a line. A line alone does not show its form: `[0] a` may be what a program
//! writes.

use crate::runtime::Runtime;
use serde::{Deserialize, Serialize};

/// The form of labels.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankLabel {
    /// `[1,0]<stdout>:` of Open MPI 4.
    OpenMpi,
    /// The same with a space of Open MPI 5.
    Prrte,
    /// `[0] ` of Hydra.
    Hydra,
    /// `0: ` of srun.
    Slurm,
}

monitor_model::names! { RankLabel {
    OpenMpi "openmpi", Prrte "prrte", Hydra "hydra", Slurm "slurm",
} }

/// Options of Open MPI; the second is of Open MPI 5, which takes words after it.
const TAG_OUTPUT: &str = "--tag-output";
const OUTPUT: &str = "--output";
const TAG: &str = "tag";
/// Options of Hydra and srun.
const PREPEND_RANK: &str = "-prepend-rank";
const LABEL: &str = "--label";
const SHORT: &str = "-l";

impl RankLabel {
    /// The labels that a launcher writes, by its command line and its runtime: that of its name,
    /// or of the file, where several runtimes have the name. An option that is one of its program
    /// counts as well: then no line has a label.
    pub fn of_command(runtime: Runtime, words: &[&str]) -> Option<Self> {
        let options = words.get(1..).unwrap_or_default();
        let has = |one: &str| options.iter().any(|it| it.trim_start_matches('-') == bare(one));
        let has_short = || options.contains(&SHORT);
        let has_output = || {
            let value = options.windows(2).filter(|it| it[0] == OUTPUT).map(|it| it[1]);
            value.flat_map(|it| it.split(',')).any(|it| it == TAG)
        };
        match runtime {
            Runtime::OpenMpi4 => has(TAG_OUTPUT).then_some(Self::OpenMpi),
            Runtime::Prrte => (has(TAG_OUTPUT) || has_output()).then_some(Self::Prrte),
            Runtime::Hydra => (has(PREPEND_RANK) || has_short()).then_some(Self::Hydra),
            Runtime::Slurm => (options.contains(&LABEL) || has_short()).then_some(Self::Slurm),
            Runtime::Native | Runtime::Session | Runtime::Unknown => None,
        }
    }

    /// The option with which a launcher writes labels; `None` if it has none.
    pub const fn option(runtime: Runtime) -> Option<&'static [&'static str]> {
        match runtime {
            Runtime::OpenMpi4 => Some(&[TAG_OUTPUT]),
            Runtime::Prrte => Some(&[OUTPUT, TAG]),
            Runtime::Hydra => Some(&[PREPEND_RANK]),
            Runtime::Slurm => Some(&[LABEL]),
            Runtime::Native | Runtime::Session | Runtime::Unknown => None,
        }
    }

    /// The rank of a line, and what follows its label.
    pub fn split(self, line: &[u8]) -> Option<(u32, &[u8])> {
        match self {
            Self::OpenMpi => rank_of_open_mpi(line),
            Self::Prrte => {
                let (rank, rest) = rank_of_open_mpi(line)?;
                Some((rank, rest.strip_prefix(b" ").unwrap_or(rest)))
            }
            Self::Hydra => {
                let (rank, rest) = number(line.strip_prefix(b"[")?)?;
                Some((rank, rest.strip_prefix(b"] ")?))
            }
            Self::Slurm => {
                // Numbers of several digits are aligned.
                let (rank, rest) = number(line.trim_ascii_start())?;
                Some((rank, rest.strip_prefix(b": ")?))
            }
        }
    }
}

/// The runtime of a launcher whose name several runtimes have, by the programs in its folder.
pub fn runtime_beside(is_beside: impl Fn(&str) -> bool) -> Option<Runtime> {
    // Open MPI 5 has no `orterun`, and Open MPI 4 no `prterun`.
    let programs = ["prterun", "orterun", "mpiexec.hydra"];
    programs.into_iter().find(|it| is_beside(it)).and_then(Runtime::launched_by)
}

fn rank_of_open_mpi(line: &[u8]) -> Option<(u32, &[u8])> {
    let (_job, rest) = number(line.strip_prefix(b"[")?)?;
    let (rank, rest) = number(rest.strip_prefix(b",")?)?;
    let rest = rest.strip_prefix(b"]<")?;
    Some((rank, rest.strip_prefix(b"stdout>:").or(rest.strip_prefix(b"stderr>:"))?))
}

fn bare(option: &str) -> &str {
    option.trim_start_matches('-')
}

fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|it| it.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: RankLabel, line: &str, want: Option<(u32, &str)>) {
        let got = label.split(line.as_bytes());
        let text = got.map(|(rank, rest)| (rank, std::str::from_utf8(rest).unwrap()));
        assert_eq!(text, want, "{line}");
    }

    #[test]
    fn a_line_begins_with_the_label_of_its_rank() {
        use RankLabel::{Hydra, OpenMpi, Prrte, Slurm};
        check(Prrte, "[1,0]<stdout>:  a", Some((0, " a")));
        check(Prrte, "[1,3]<stderr>: ", Some((3, "")));
        check(OpenMpi, "[1,0]<stdout>: a", Some((0, " a")));
        check(OpenMpi, "[1,0]<stdout>:a\n", Some((0, "a\n")));
        check(OpenMpi, "[1,12]<stderr>:", Some((12, "")));
        check(OpenMpi, "[1,0]<stdout>a", None);
        check(OpenMpi, "[1]<stdout>:a", None);
        check(OpenMpi, "Sat Nov 28[1,0]<stdout>:a", None);
        check(Hydra, "[3] a", Some((3, "a")));
        check(Hydra, "[3]", None);
        check(Hydra, "[] a", None);
        check(Slurm, "0: a", Some((0, "a")));
        check(Slurm, " 7: [1] a", Some((7, "[1] a")));
        check(Slurm, "srun: error", None);
        check(Slurm, "99999999999: a", None);
    }

    #[track_caller]
    fn check_command(runtime: Runtime, command: &str, want: Option<RankLabel>) {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(RankLabel::of_command(runtime, &words), want, "{command}");
    }

    #[test]
    fn an_option_of_the_launcher_says_that_it_writes_labels() {
        let open = Some(RankLabel::Prrte);
        check_command(Runtime::OpenMpi4, "mpirun -tag-output ./a", Some(RankLabel::OpenMpi));
        check_command(Runtime::OpenMpi4, "mpirun -n 2 ./a", None);
        check_command(Runtime::Prrte, "prterun --output tag,merge -n 2 ./a", open);
        check_command(Runtime::Prrte, "prterun --output merge -n 2 ./a", None);
        check_command(Runtime::Prrte, "mpirun --tag-output ./a", open);
        check_command(Runtime::Hydra, "mpiexec -l -n 2 ./a", Some(RankLabel::Hydra));
        check_command(Runtime::Slurm, "srun --label ./a", Some(RankLabel::Slurm));
        check_command(Runtime::Unknown, "./a.sh -l", None);
    }

    #[test]
    fn each_launcher_writes_labels_with_its_option() {
        for runtime in [Runtime::OpenMpi4, Runtime::Prrte, Runtime::Hydra, Runtime::Slurm] {
            let options = RankLabel::option(runtime).unwrap();
            let words = [&["launcher"], options].concat();
            assert!(RankLabel::of_command(runtime, &words).is_some(), "{runtime:?}");
        }
        let beside = |program: &'static str| runtime_beside(move |it| it == program);
        assert_eq!(beside("prterun"), Some(Runtime::Prrte));
        assert_eq!(beside("mpiexec.hydra"), Some(Runtime::Hydra));
        assert_eq!(beside("true"), None);
    }
}
