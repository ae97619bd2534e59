//! `monitor record FILE`: records samples to a file. The daemon reads, if one answers.
//!
//! It ends after the given time, number of samples or size, or when it is interrupted; all of
//! these are a normal end.

use super::args::RecordArgs;
use super::daemon_source::DaemonSource;
use super::local_source::LocalSource;
use super::sink::{RecordingSink, selection};
use crate::cli::args::ReadingArgs;
use crate::cli::client::{find, runtime};
use crate::cli::columns::SampleMode;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::plan::Plan;
use crate::cli::run_loop;
use monitor_backends::host;
use monitor_format::OutputFormat;
use monitor_model::id::Ns;
use monitor_recording::{Existing, Header, RotateOptions, RotatingWriter};
use std::time::Duration;

/// Records until the end.
pub fn record(args: &RecordArgs) -> Result<Exit, Failure> {
    check(args)?;
    // With all fields, as in JSON.
    let reading = ReadingArgs { format: OutputFormat::Json, ..args.reading.clone() };
    let plan = Plan::resolve(&reading, SampleMode::Periodic)?;
    log::start(0);
    let runtime = runtime()?;
    // Only a local backend reports signals.
    let daemon = match args.reading.signals {
        true => None,
        false => runtime.block_on(find(&args.reader))?,
    };
    runtime.block_on(async {
        match daemon {
            Some(client) => DaemonSource::start(args, &plan, &client).await?.run().await,
            None => run_loop::run(LocalSource::open(args, plan)?).await,
        }
    })
}

/// Refuses options about formats and order, which belong to `replay`.
fn check(args: &RecordArgs) -> Result<(), Failure> {
    let reading = &args.reading;
    let given = [
        ("--pmix", reading.pmix),
        ("--output", reading.output.is_some()),
        ("--sort", reading.sort.is_some()),
        ("--top", reading.top.is_some()),
        ("--group-by", reading.group_by.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} applies to monitor replay: a recording contains all selected processes"
        ))),
        None => Ok(()),
    }
}

/// Creates the file, once node and backend are known.
pub(super) fn open_sink(
    args: &RecordArgs,
    node: &str,
    backend: &str,
) -> Result<RecordingSink, Failure> {
    let header = Header {
        node: node.to_owned(),
        selection: selection(&args.reading),
        ..header(backend, args.every)
    };
    let options = RotateOptions {
        path: args.file.clone(),
        existing: existing(args.force),
        max_bytes: args.max_size,
        max_time: args.max_time.map(Ns::from),
        kept: args.rotate,
    };
    Ok(RecordingSink::new(RotatingWriter::create(options, header)?))
}

/// The number of samples to record; `None` is unlimited.
pub(super) fn sample_count(args: &RecordArgs) -> Option<u64> {
    let by_time = args.time.map(|time| {
        let intervals = time.as_nanos() / args.every.as_nanos().max(1);
        u64::try_from(intervals).unwrap_or(u64::MAX).saturating_add(1)
    });
    by_time.into_iter().chain(args.count).min()
}

/// The header of a recording that starts on this node now.
pub(super) fn header(backend: &str, every: Duration) -> Header {
    Header {
        node: host::name().to_string(),
        backend: backend.to_owned(),
        boot_id: host::boot_id(),
        started_unix_ns: monitor_sys::clock::now().unix.0,
        every_ns: Ns::from(every).0,
        processors: std::thread::available_parallelism()
            .map_or(0, |it| u32::try_from(it.get()).unwrap_or(0)),
        ..Header::default()
    }
}

/// What to do with an existing file.
pub const fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}
