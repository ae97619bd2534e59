//! `monitor save FILE`: saves the daemon's flight recorder as a recording.
//!
//! The daemon sends it in chunks; this process writes the file, with its own rights.

use super::args::SaveArgs;
use super::existing;
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_client::{Client, Error};
use monitor_model::id::Ns;
use monitor_protocol::params::Flight;
use monitor_recording as record;
use monitor_recording::Recording;
use std::fs::File;
use std::io::Write;

/// Saves the flight recorder.
pub fn save(args: &SaveArgs) -> Result<Exit, Failure> {
    with_daemon(args.daemon.socket.as_deref(), async |client| -> Result<(), Failure> {
        let first = Flight { last_ns: args.last.map(|it| Ns::from(it).0), ..Flight::default() };
        // First the call: a refusal must not leave a file behind.
        let begun = client.flight(first).await?;
        let file = record::create(&args.file, existing(args.force))?;
        write(args, file, (&client, begun)).await
    })?;
    let recording = Recording::open(&args.file)?;
    let span = recording.span().unwrap_or_default();
    notice(&format!("{} samples, {}", span.samples, super::args::rfc3339(span.first.unix)));
    Ok(Exit::Ok)
}

async fn write(
    args: &SaveArgs,
    mut file: File,
    (client, mut chunk): (&Client, monitor_protocol::answer::FlightPart),
) -> Result<(), Failure> {
    loop {
        let bytes = chunk.bytes().map_err(|why| Failure::from(Error::Protocol { why }))?;
        if let Err(source) = file.write_all(&bytes) {
            // The daemon still has all of it.
            record::remove(&args.file, &file);
            let path = args.file.clone();
            return Err(record::Error::File { act: "write", path, source }.into());
        }
        match chunk.next {
            Some(next) => chunk = client.flight(next).await?,
            None => return Ok(()),
        }
    }
}
