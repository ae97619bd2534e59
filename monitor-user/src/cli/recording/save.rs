//! `monitor save FILE`: what the daemon's flight recorder has, as a recording.
//!
//! The daemon hands it out in parts; the file is written by us, with our rights.

use super::words::Save;
use crate::cli::client::{connect, runtime};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::say;
use crate::cli::recording::existing;
use monitor_client::{Client, Error};
use monitor_model::id::Ns;
use monitor_protocol::params::Flight;
use monitor_recording as record;
use monitor_recording::Recording;
use std::fs::File;
use std::io::Write;

/// Saves it.
pub fn save(words: &Save) -> Result<Exit, Failure> {
    let saved = runtime()?.block_on(async {
        let client = connect(words.daemon.socket.as_deref()).await?;
        let first = Flight { last_ns: words.last.map(|it| Ns::from(it).0), ..Flight::default() };
        // A daemon that refuses shall leave no file behind.
        let begun = client.flight(first).await?;
        let file = record::create(&words.file, existing(words.force))?;
        write(words, file, (&client, begun)).await
    });
    saved?;
    let recording = Recording::open(&words.file)?;
    let span = recording.span().unwrap_or_default();
    say(&format!("{} samples, {}", span.samples, super::when::rfc3339(span.first.unix)));
    Ok(Exit::Ok)
}

async fn write(
    words: &Save,
    mut file: File,
    (client, mut handed): (&Client, monitor_protocol::answer::Handed),
) -> Result<(), Failure> {
    loop {
        let bytes = handed.bytes().map_err(|why| Failure::from(Error::Garbled { why }))?;
        let written = file.write_all(&bytes);
        written.map_err(|source| {
            Failure::from(record::Error::File { act: "write", path: words.file.clone(), source })
        })?;
        match handed.next {
            Some(next) => handed = client.flight(next).await?,
            None => return Ok(()),
        }
    }
}
