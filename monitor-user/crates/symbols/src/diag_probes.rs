//! Diagnostic probes: the USDT probes that `monitor_diag.h` puts into a file.
//!
//! In: the notes of a file (`.note.stapsdt` as defined by SystemTap, and `.note.monitor` for the
//! message). Out: the probes, each with name, thresholds and site. Attaches nothing.

use super::{SymbolError, elf::ElfImage, held_file::FileRef, mapped_files, site};
use monitor_model::Pid;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The USDT provider of these probes; others are ignored.
const PROVIDER: &str = "monitor_diag";

/// A diagnostic probe.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct DiagProbe {
    /// Name of the event.
    pub name: String,
    /// Its message.
    pub message: String,
    /// Number of events after which it is reported.
    pub count: u64,
    /// Minimal time between two reports, in seconds.
    pub delay_seconds: u64,
    /// How many events one hit stands for.
    pub events_per_hit: EventsPerHit,
}

/// How many events one hit of a probe stands for.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsPerHit {
    /// One event.
    One,
    /// The number in `%rdi`.
    Argument,
}

/// A probe and its site.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct DiagProbeSite {
    /// The probe.
    pub probe: DiagProbe,
    /// Its file.
    pub file: FileRef,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

/// Probes with their sites, and errors for those without.
pub type FoundProbes = (Vec<DiagProbeSite>, Vec<SymbolError>);

/// The probes in all files that a process has mapped, and the errors of files that cannot be read.
pub fn in_process(proc: &Path, pid: Pid) -> Result<FoundProbes, SymbolError> {
    let (files, mut failed) = mapped_files::files(proc, pid)?;
    let mut found = Vec::new();
    for file in &files {
        match in_image(&file.image) {
            Ok(probes) => {
                for (probe, address) in probes {
                    match site::inside(&file.image, address) {
                        Ok(site) => {
                            let (file, offset) = (FileRef::from_mapped(file), site.offset);
                            found.push(DiagProbeSite { probe, file, offset });
                        }
                        Err(error) => failed.push(error),
                    }
                }
            }
            Err(error) => failed.push(error),
        }
    }
    Ok((found, failed))
}

/// The probes of a file, with their addresses in the file.
pub fn in_image(image: &ElfImage) -> Result<Vec<(DiagProbe, u64)>, SymbolError> {
    let messages = image.messages()?;
    let probes = image.static_probes()?.into_iter().filter(|it| it.provider == PROVIDER);
    let probe = |it: super::elf::StaticProbe| {
        let (count, delay_seconds, times) = arguments(&it.arguments)?;
        let message = messages.iter().find(|(at, _)| *at == it.noted);
        let message = message.map_or_else(|| it.name.replace('_', " "), |(_, text)| text.clone());
        Some((
            DiagProbe { name: it.name, message, count, delay_seconds, events_per_hit: times },
            it.address,
        ))
    };
    let want = "a monitor_diag note with two constants and optionally %rdi";
    let wrong = || image.file.malformed(want);
    probes.map(|it| probe(it).ok_or_else(wrong)).collect()
}

/// Parses `4@$1000 4@$60 8@%rdi`: on x86 a constant is `$` and a number.
fn arguments(text: &str) -> Option<(u64, u64, EventsPerHit)> {
    let mut all = text.split(' ');
    let mut constant = || all.next()?.split_once("@$")?.1.parse().ok();
    let (count, delay) = (constant()?, constant()?);
    let times = match all.next() {
        None => EventsPerHit::One,
        Some("8@%rdi") => EventsPerHit::Argument,
        Some(_) => return None,
    };
    (count > 0).then_some((count, delay, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_must_be_constants() {
        assert_eq!(arguments("4@$1000 4@$60"), Some((1000, 60, EventsPerHit::One)));
        assert_eq!(arguments("4@$1000 4@$60 8@%rdi"), Some((1000, 60, EventsPerHit::Argument)));
        assert_eq!(arguments("4@$1000 4@$60 8@-8(%rbp)"), None);
        assert_eq!(arguments("4@$0 4@$60"), None);
        assert_eq!(arguments("4@%eax 4@$60"), None);
        assert_eq!(arguments(""), None);
    }
}
