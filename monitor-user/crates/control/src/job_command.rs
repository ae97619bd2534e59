//! Commands of this program on jobs, which a user worker runs for a tool, as the user of the tool.
//!
//! In: what to do. Out: the words of the command line, and what the command has written. A command
//! is a process of its own, because it may use the library of PMIx: a fault of that library, or a
//! server that does not answer, ends or delays the command and not the worker.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A word of a command line.
type Word = Vec<u8>;

/// A command on a job.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct JobCommand {
    /// What it does.
    pub act: JobAct,
    /// Its environment; absent, that of the user worker.
    pub environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Its working directory; absent, `/`.
    pub folder: Option<PathBuf>,
}

/// What a command does. A job is the text that names it, perhaps with ranks: `77:0-3,7`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum JobAct {
    /// Start ranks or a launcher, in the background.
    Launch(RankLaunch),
    /// Read what ranks have written.
    Output(OutputRange),
    /// The values of these keys, of the PMIx server of the job.
    Query(String, Vec<String>),
    /// Raise an event.
    Notify(JobEvent),
    /// Write a line into the output of the job: the job, the text, and whether it is an error.
    Log(String, Word, LogStream),
}

/// Ranks to be started.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct RankLaunch {
    /// Their number; absent, the words are the command line of a launcher.
    pub ranks: Option<u32>,
    /// How they are started, as `job launch --with` has it.
    pub with: String,
    /// Where a launcher writes.
    pub output: LauncherOutput,
    /// Where they are held, as `job launch --stop` has it.
    pub stop: Option<String>,
    /// Directives on the environment, in their order.
    pub directives: Vec<Word>,
    /// The program and its arguments.
    pub words: Vec<Word>,
}

/// Where a launcher writes.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherOutput {
    /// It is kept, as `job launch --background` does.
    Kept,
    /// To the streams of the command.
    Streams,
}

/// A part of what ranks have written.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct OutputRange {
    /// The job.
    pub job: String,
    /// Its position in the output of the job, in bytes.
    pub from: u64,
    /// Its length, in bytes, rounded up to whole writes.
    pub most: u64,
    /// How long to wait for the first byte of it, in milliseconds.
    pub wait_ms: u64,
}

/// An event for processes of a job.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// The job.
    pub job: String,
    /// The name or number of the event.
    pub event: String,
    /// Which processes get it, as `job notify --range` has it.
    pub range: String,
    /// A text for the handlers.
    pub text: Option<Word>,
}

/// The stream of a line.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl LogStream {
    /// That with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "stdout" => Some(Self::Output),
            "stderr" => Some(Self::Error),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Error => "stderr",
        }
    }
}

/// What a command has written, and how it ended.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit code; absent if a signal has ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl JobAct {
    /// The words of the command line, without the name of this program.
    pub fn words(&self) -> Vec<Word> {
        let word = |it: &String| it.clone().into_bytes();
        match self {
            Self::Launch(launch) => launch.words(),
            Self::Output(OutputRange { job, from, most, wait_ms }) => {
                let mut options = texts(&["--format=json", "--no-follow"]).collect::<Vec<_>>();
                options.push(format!("--from={from}").into_bytes());
                options.push(format!("--most={most}").into_bytes());
                if *wait_ms > 0 {
                    options.push(format!("--for={wait_ms}ms").into_bytes());
                }
                line("output", options, [word(job)])
            }
            Self::Query(job, keys) => {
                let operands = std::iter::once(job).chain(keys).map(word);
                line("query", texts(&["--format=json"]), operands)
            }
            Self::Notify(JobEvent { job, event, range, text }) => {
                let text = text.iter().map(|it| [b"--text=", it.as_slice()].concat());
                let options = [format!("--range={range}").into_bytes()].into_iter().chain(text);
                line("notify", options, [word(job), word(event)])
            }
            Self::Log(job, text, stream) => {
                let to = format!("--to={}", stream.name()).into_bytes();
                line("log", [to], [word(job), text.clone()])
            }
        }
    }
}

/// The words of a command below `job`: what follows its options is none, whatever it begins with.
fn line(
    command: &str,
    options: impl IntoIterator<Item = Word>,
    operands: impl IntoIterator<Item = Word>,
) -> Vec<Word> {
    let mut words: Vec<Word> = texts(&["job", command]).collect();
    words.extend(options);
    words.push(b"--".to_vec());
    words.extend(operands);
    words
}

impl RankLaunch {
    /// Whether the command ends when the ranks, or the launcher, run.
    pub fn is_in_background(&self) -> bool {
        match self.ranks {
            Some(_) => true,
            None => self.output == LauncherOutput::Kept,
        }
    }

    /// The words of the command line.
    pub fn words(&self) -> Vec<Word> {
        let mut options = vec![format!("--with={}", self.with).into_bytes()];
        if let Some(ranks) = self.ranks {
            options.push(format!("-n{ranks}").into_bytes());
        }
        if self.is_in_background() {
            options.extend(texts(&["--background", "--format=json"]));
        }
        options.extend(self.stop.iter().map(|it| format!("--stop={it}").into_bytes()));
        if self.ranks.is_some() && self.stop.as_deref() == Some("init") {
            // A program may call MPI_Init later than a reply may come.
            options.extend(texts(&["--no-wait"]));
        }
        options.extend(self.directives.iter().map(|it| [b"--env=", it.as_slice()].concat()));
        line("launch", options, self.words.iter().cloned())
    }
}

fn texts<'t>(words: &'t [&'t str]) -> impl Iterator<Item = Word> + 't {
    words.iter().map(|it| it.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(act: &JobAct, want: &str) {
        let words: Vec<String> =
            act.words().into_iter().map(|it| String::from_utf8(it).unwrap()).collect();
        assert_eq!(words.join(" "), want);
    }

    #[test]
    fn what_a_tool_writes_is_never_an_option() {
        let keys = vec!["--help".to_owned()];
        check(&JobAct::Query("-x".to_owned(), keys), "job query --format=json -- -x --help");
        let log = JobAct::Log("-x".to_owned(), b"--to=stdout".to_vec(), LogStream::Error);
        check(&log, "job log --to=stderr -- -x --to=stdout");
        let event = JobEvent {
            job: "7".to_owned(),
            event: "-1".to_owned(),
            range: "ranks".to_owned(),
            text: Some(b"--x".to_vec()),
        };
        check(&JobAct::Notify(event), "job notify --range=ranks --text=--x -- 7 -1");
    }

    #[test]
    fn ranks_without_a_launcher_are_started_in_the_background() {
        let mut launch = RankLaunch {
            ranks: Some(2),
            with: "native".to_owned(),
            output: LauncherOutput::Kept,
            stop: Some("exec".to_owned()),
            directives: vec![b"unset:A".to_vec()],
            words: vec![b"./a".to_vec(), b"-n".to_vec()],
        };
        let want = "job launch --with=native -n2 --background --format=json --stop=exec \
                    --env=unset:A -- ./a -n";
        check(&JobAct::Launch(launch.clone()), want);
        launch.stop = Some("init".to_owned());
        check(
            &JobAct::Launch(launch),
            "job launch --with=native -n2 --background --format=json --stop=init --no-wait \
             --env=unset:A -- ./a -n",
        );
    }

    #[test]
    fn a_launcher_is_started_in_the_background_unless_it_has_streams() {
        let mut launch = RankLaunch {
            ranks: None,
            with: "mpirun".to_owned(),
            output: LauncherOutput::Kept,
            stop: Some("init".to_owned()),
            directives: Vec::new(),
            words: vec![b"mpirun".to_vec()],
        };
        let want = "job launch --with=mpirun --background --format=json --stop=init -- mpirun";
        check(&JobAct::Launch(launch.clone()), want);
        launch.output = LauncherOutput::Streams;
        check(&JobAct::Launch(launch), "job launch --with=mpirun --stop=init -- mpirun");
    }
}
