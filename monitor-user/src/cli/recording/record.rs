//! `monitor record FILE`: what is read goes into a file, by the daemon if one answers.
//!
//! It ends after its time, its number of samples, its size, or when it is told to; all of these
//! are an end as it should be.

use super::feed::{Feed, selection};
use super::here::Here;
use super::relayed::Relayed;
use super::words::Record;
use crate::cli::args::Reading;
use crate::cli::client::{found, runtime};
use crate::cli::columns::Pace;
use crate::cli::exit::{Exit, Failure};
use crate::cli::log;
use crate::cli::pace;
use crate::cli::plan::Plan;
use monitor_backends::host;
use monitor_format::Form;
use monitor_model::id::Ns;
use monitor_recording::{Existing, Header, Options, Roll};
use std::time::Duration;

/// Records until it is over.
pub fn record(words: &Record) -> Result<Exit, Failure> {
    possible(words)?;
    // With all fields, as the forms for programs have them.
    let reading = Reading { format: Form::Json, ..words.reading.clone() };
    let plan = Plan::resolve(&reading, Pace::Again)?;
    log::start(0);
    let runtime = runtime()?;
    // Signals are told by our own reader only.
    let daemon = match words.reading.signals {
        true => None,
        false => runtime.block_on(found(&words.reader))?,
    };
    runtime.block_on(async {
        match daemon {
            Some(client) => Relayed::start(words, &plan, &client).await?.run().await,
            None => pace::run(Here::open(words, plan)?).await,
        }
    })
}

/// What speaks of a form or an order is for `replay`.
fn possible(words: &Record) -> Result<(), Failure> {
    let reading = &words.reading;
    let given = [
        ("--pmix", reading.pmix),
        ("--output", reading.output.is_some()),
        ("--sort", reading.sort.is_some()),
        ("--top", reading.top.is_some()),
        ("--group-by", reading.group_by.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is for monitor replay: a recording has every process that was selected"
        ))),
        None => Ok(()),
    }
}

/// Opens the file, when it is known who reads.
pub(super) fn feed(words: &Record, node: &str, backend: &str) -> Result<Feed, Failure> {
    let header = Header {
        node: node.to_owned(),
        selection: selection(&words.reading),
        ..header(backend, words.every)
    };
    let options = Options {
        path: words.file.clone(),
        existing: existing(words.force),
        most_bytes: words.max_size,
        most_time: words.max_time.map(Ns::from),
        kept: words.rotate,
    };
    Ok(Feed::new(Roll::create(options, header)?))
}

/// How many samples there shall be.
pub(super) fn count(words: &Record) -> Option<u64> {
    let by_time = words.time.map(|time| {
        let intervals = time.as_nanos() / words.every.as_nanos().max(1);
        u64::try_from(intervals).unwrap_or(u64::MAX).saturating_add(1)
    });
    by_time.into_iter().chain(words.count).min()
}

/// What a recording that is begun here and now says of itself.
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

/// What becomes of a file that is there.
pub const fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}
