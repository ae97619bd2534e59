//! Arguments that several commands share: what is read, from which source, and how it is printed.
//!
//! In: the command line. Out: the same, typed. `cli/plan` checks combinations and field names.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use monitor_backend::BackendChoice;
use monitor_format::OutputFormat;
use monitor_model::event::Signal;
use monitor_model::group::GroupBy;
use monitor_model::scope::Scope;
use monitor_sys::users;
use std::path::PathBuf;
use std::time::Duration;

/// What is read and how it is printed: shared by `sample`, `watch`, `start` and recordings.
#[derive(Clone, Debug, Args)]
pub struct ReadingArgs {
    /// What to read: processes, the node with its devices, disks, interfaces, or all
    #[arg(default_value = "proc", value_parser = names::<Scope>(&Scope::NAMES))]
    pub part: Scope,
    /// With disk or net: show only these devices
    pub device: Vec<String>,

    /// Show only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Which processes")]
    pub pid: Vec<u32>,
    /// Show only processes with this command name; * matches any characters
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Which processes")]
    pub comm: Vec<String>,
    /// Show only processes of this user, by name or number
    #[arg(long, value_name = "USER,…", value_delimiter = ',', value_parser = users::uid,
        help_heading = "Which processes")]
    pub uid: Vec<u32>,
    /// Show only processes in this cgroup or below it
    #[arg(long, value_name = "PATH,…", value_delimiter = ',', help_heading = "Which processes")]
    pub cgroup: Vec<String>,
    /// Show only processes, or groups, that match this condition, such as: rss > 1G and comm ~ mpi
    #[arg(long, value_name = "CONDITION", help_heading = "Which processes")]
    pub filter: Option<String>,
    /// Show at most N rows (default for watch on a terminal: as many as fit)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Which processes")]
    pub top: Option<u32>,
    /// Add up processes by this property, exited ones included
    #[arg(long, value_name = "WHAT", value_parser = names::<GroupBy>(&GroupBy::NAMES),
        help_heading = "Which processes")]
    pub group_by: Option<GroupBy>,
    /// With --group-by: keep reporting a finished group for TIME
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration,
        requires = "group_by", help_heading = "Which processes")]
    pub keep: Duration,
    /// Sort by this field, largest first; +FIELD: smallest first
    #[arg(
        long,
        value_name = "[+|-]FIELD",
        allow_hyphen_values = true,
        help_heading = "Which processes"
    )]
    pub sort: Option<String>,

    /// Show these fields (see: monitor fields)
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', help_heading = "What to show")]
    pub fields: Vec<String>,
    /// Show one row per thread
    #[arg(long, help_heading = "What to show")]
    pub threads: bool,
    /// Count block I/O per process (its latencies are columns with --fields)
    #[arg(long, help_heading = "What to show")]
    pub disk: bool,
    /// Count bytes sent and received on every socket, per process, including UDP
    #[arg(long, help_heading = "What to show")]
    pub net: bool,
    /// Measure percentiles of the run-queue latency
    #[arg(long, help_heading = "What to show")]
    pub runqlat: bool,
    /// With --disk: charge write-back to the process that dirtied the pages
    #[arg(long, requires = "disk", help_heading = "What to show")]
    pub writeback: bool,
    /// Count CPU time at each context switch
    #[arg(long, help_heading = "What to show")]
    pub exact_cpu: bool,
    /// Print each signal with time, sender, receiver and outcome
    #[arg(long, help_heading = "What to show")]
    pub signals: bool,

    /// Output format
    #[arg(long, default_value = "table", value_parser = output_format(), help_heading = "Output")]
    pub format: OutputFormat,
    /// Use the keys and units of PMIx: same as --format pmix
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub pmix: bool,
    /// Write to this file, one whole sample at a time
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// The source of samples: the daemon of this node, if one answers, else a backend here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Read without the daemon
    #[arg(long)]
    pub local: bool,
    /// Connect to the daemon listening on this socket
    #[arg(long, value_name = "PATH", env = "MONITOR_SOCKET", hide_env_values = true)]
    pub socket: Option<PathBuf>,
    /// Read without the daemon, with this backend; auto: the best that works
    #[arg(long, default_value = "auto", env = "MONITOR_BACKEND", hide_env_values = true,
        value_parser = names::<BackendChoice>(&BackendChoice::NAMES))]
    pub backend: BackendChoice,
}

/// The output format of commands that print one report.
#[derive(Clone, Debug, Args)]
pub struct PrintArgs {
    /// Output format
    #[arg(long, default_value = "table", value_parser = formats(&["table", "json"]))]
    pub format: String,
}

/// When a series of samples ends.
#[derive(Clone, Debug, Args)]
pub struct LimitArgs {
    /// Stop after this time, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = interval)]
    pub span: Option<Duration>,
    /// Stop after N samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

impl LimitArgs {
    /// The number of samples at this interval, of which the first is taken at once; `None` is
    /// unlimited.
    pub fn samples(&self, every: Duration) -> Option<u64> {
        let by_time = self.span.map(|span| {
            let intervals = span.as_nanos() / every.as_nanos().max(1);
            u64::try_from(intervals).unwrap_or(u64::MAX).saturating_add(1)
        });
        by_time.into_iter().chain(self.count).min()
    }
}

/// The log level of the BPF programs, for commands that read with a local backend.
#[derive(Clone, Debug, Args)]
pub struct ProbeLogArgs {
    /// Log level of the BPF programs
    #[arg(long, value_name = "LEVEL", default_value = "off",
        value_parser = PossibleValuesParser::new(LEVELS), help_heading = "Source")]
    pub probe_log: String,
}

/// Levels of `--probe-log`; the index is the level that the BPF programs use.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl ProbeLogArgs {
    /// The level as the BPF programs use it: 0 is off, 5 is trace.
    pub fn level(&self) -> u8 {
        let level = LEVELS.iter().position(|level| *level == self.probe_log);
        level.and_then(|level| u8::try_from(level).ok()).unwrap_or(0)
    }
}

impl ReadingArgs {
    /// The output format: `--pmix` overrides `--format`.
    pub const fn output_format(&self) -> OutputFormat {
        if self.pmix { OutputFormat::Pmix } else { self.format }
    }

    /// Whether an option names the processes, by something else than their ids.
    pub const fn names_processes(&self) -> bool {
        !(self.comm.is_empty() && self.uid.is_empty() && self.cgroup.is_empty())
    }

    /// The options that select processes by something else than their ids, with their values.
    pub fn selecting_options(&self) -> String {
        let uids: Vec<_> = self.uid.iter().map(u32::to_string).collect();
        let given = [
            ("--comm", self.comm.join(",")),
            ("--uid", uids.join(",")),
            ("--cgroup", self.cgroup.join(",")),
            ("--filter", self.filter.clone().unwrap_or_default()),
        ];
        let named = given.iter().filter(|(_, value)| !value.is_empty());
        named.map(|(option, value)| format!("{option} {value}")).collect::<Vec<_>>().join(" ")
    }
}

impl PrintArgs {
    /// Whether the output is JSON.
    pub fn is_json(&self) -> bool {
        self.format == "json"
    }
}

/// A parser of names of formats. `text` is another word for `table`, which is not listed.
pub fn formats(valid: &'static [&'static str]) -> PossibleValuesParser {
    let value = |name: &&'static str| match *name {
        "table" => PossibleValue::new("table").alias("text"),
        name => PossibleValue::new(name),
    };
    PossibleValuesParser::new(valid.iter().map(value))
}

fn output_format() -> impl TypedValueParser<Value = OutputFormat> {
    formats(&OutputFormat::NAMES).try_map(|name| match name.as_str() {
        "text" => Ok(OutputFormat::Table),
        name => name.parse::<OutputFormat>(),
    })
}

/// A parser of names that shell completions list too. It accepts exactly the `valid` names.
pub fn names<T>(valid: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = monitor_model::name::UnknownName> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(valid).try_map(|name| name.parse::<T>())
}

/// Parses an interval with its unit. Fails below 1 ms or without a unit.
pub fn interval(text: &str) -> Result<Duration, String> {
    const MIN: Duration = Duration::from_millis(1);
    match humantime::parse_duration(text) {
        Ok(time) if time >= MIN => Ok(time),
        Ok(_) => Err("the minimum is 1ms".into()),
        // A bare number lacks its unit, and humantime says so; anything else is no time.
        Err(error) if text.parse::<f64>().is_ok() => Err(error.to_string()),
        Err(_) => Err("expected a time such as 100ms, 1s or 2m".into()),
    }
}

/// The number of a signal, from its name with or without `SIG`, or from its number.
pub fn signal(name: &str) -> Result<u32, String> {
    const LAST: u32 = 64;
    let full = if name.starts_with("SIG") { name.to_owned() } else { format!("SIG{name}") };
    let is_it = |number: &u32| {
        let signal = Signal { number: *number, code: 0, thread: None };
        signal.name().as_deref() == Some(&full) || name.parse() == Ok(*number)
    };
    let found = (1..=LAST).find(is_it);
    found.ok_or_else(|| {
        format!("unknown signal {name:?}: expected a name or number, as SIGTERM or 15")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_a_count_limit_the_samples_together() {
        let limit =
            |span: Option<u64>, count| LimitArgs { span: span.map(Duration::from_secs), count };
        let every = Duration::from_millis(500);
        assert_eq!(limit(None, None).samples(every), None);
        assert_eq!(limit(Some(2), None).samples(every), Some(5));
        assert_eq!(limit(Some(2), Some(3)).samples(every), Some(3));
        assert_eq!(limit(Some(2), Some(9)).samples(every), Some(5));
    }

    #[test]
    fn intervals_need_a_unit_and_at_least_1ms() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(interval("0s"), Err("the minimum is 1ms".into()));
        assert!(interval("1").is_err_and(|why| why.contains("unit")));
    }
}
