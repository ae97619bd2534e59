//! Static probes of unusual events: what `monitor_diag.h` left in a file.
//!
//! In: the notes of a file (`.note.stapsdt`, as SystemTap defined them and perf and bpftrace read
//! them, and `.note.monitor` for the message). Out: the probes, each with its name, its thresholds
//! and its place. Attaches nothing.

use super::elf::Image;
use super::error::Error;
use super::mapped;
use super::site::{self, Site};
use crate::model::id::Pid;
use std::path::Path;
use std::sync::Arc;

/// The provider of these probes; others are somebody else's.
const PROVIDER: &str = "monitor_diag";

/// A static probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusual {
    /// The event.
    pub name: String,
    /// What it means.
    pub message: String,
    /// It is told when it has happened so often.
    pub count: u64,
    /// At most once in so many seconds.
    pub delay_seconds: u64,
}

/// Probes with their places, and why others have none.
pub type Found = (Vec<(Arc<Unusual>, Site)>, Vec<Error>);

/// The probes in the files that a process has mapped, with places for them. Those that have none
/// are told beside.
pub fn in_process(proc: &Path, pid: Pid) -> Result<Found, Error> {
    let (files, mut failed) = mapped::files(proc, pid)?;
    let mut found = Vec::new();
    for file in &files {
        match in_image(&file.image) {
            Ok(probes) => {
                for (probe, address) in probes {
                    match site::inside(&file.image, address) {
                        Ok(site) => found.push((Arc::new(probe), site)),
                        Err(error) => failed.push(error),
                    }
                }
            }
            Err(error) => failed.push(error),
        }
    }
    Ok((found, failed))
}

/// The probes of a file, with their addresses in it.
pub fn in_image(image: &Image) -> Result<Vec<(Unusual, u64)>, Error> {
    let messages = image.messages()?;
    let probes = image.static_probes()?.into_iter().filter(|it| it.provider == PROVIDER);
    let probe = |it: super::elf::StaticProbe| {
        let (count, delay_seconds) = constants(&it.arguments)?;
        let message = messages.iter().find(|(at, _)| *at == it.noted);
        let message = message.map_or_else(|| it.name.replace('_', " "), |(_, text)| text.clone());
        Some((Unusual { name: it.name, message, count, delay_seconds }, it.address))
    };
    let wrong = || image.file.malformed("C and T as constants in a note of monitor_diag");
    probes.map(|it| probe(it).ok_or_else(wrong)).collect()
}

/// `4@$1000 4@$60`: a constant is `$` and a number, on x86.
fn constants(arguments: &str) -> Option<(u64, u64)> {
    let mut all = arguments.split(' ').map(|it| it.split_once("@$")?.1.parse().ok());
    let (count, delay) = (all.next()??, all.next()??);
    (count > 0).then_some((count, delay))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_constants() {
        assert_eq!(constants("4@$1000 4@$60"), Some((1000, 60)));
        assert_eq!(constants("4@$0 4@$60"), None);
        assert_eq!(constants("4@%eax 4@$60"), None);
        assert_eq!(constants(""), None);
    }
}
