//! The words of `when`, as they were written.

use super::super::args::interval;
use super::super::exit;
use super::show::Form;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Events:
  call FUNCTION       it is called; its arguments are known
  return FUNCTION     it has returned; its result and what it wrote are known
  signal [NAME,...]   a signal is taken
  exec                a program is executed
  end                 a process ends
  A function is NAME, LIBRARY:NAME@VERSION or FILE:0xOFFSET.

Actions:
  print               a line for each
  count               how often, at the end
  time                how long calls took, at the end
  stop                the process is stopped, at once, until it is continued
  kill SIGNAL         the process gets this signal, at once

Examples:
  monitor when 'call MPI_Send' count,time --pid 4711
  monitor when signal print --comm 'worker*'
  monitor when 'call abort' print,stop -- ./program
";

/// `when`.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP, after_long_help = EXAMPLES)]
pub struct When {
    /// What happens, such as 'call MPI_Send', 'return open', 'signal SIGTERM', exec or end
    pub event: String,
    /// What to do then: print, count, time, stop, 'kill SIGNAL', with commas between them
    #[arg(default_value = "print,count")]
    pub actions: String,
    /// In these processes and their children
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Which processes")]
    pub pid: Vec<u32>,
    /// In processes with this command name and their children; * stands for any letters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Which processes")]
    pub comm: Vec<String>,
    /// Stop watching after so long, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub span: Option<Duration>,
    /// Stop watching after so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub lines: Option<u64>,
    /// Form of the output
    #[arg(long, default_value = "table",
        value_parser = PossibleValuesParser::new(["table", "json"]))]
    pub format: String,
    /// Read descriptions of libraries from this folder too
    #[arg(long, value_name = "FOLDER")]
    pub calls: Vec<PathBuf>,
    /// Start this command, and watch it and its children from the first instruction
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "comm"])]
    pub command: Vec<OsString>,
}

impl When {
    /// For whom it is written.
    pub fn form(&self) -> Form {
        if self.format == "json" { Form::Json } else { Form::People }
    }
}
