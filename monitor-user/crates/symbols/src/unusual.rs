//! Static probes of unusual events: what `monitor_diag.h` left in a file.
//!
//! In: the notes of a file (`.note.stapsdt`, as SystemTap defined them and perf and bpftrace read
//! them, and `.note.monitor` for the message). Out: the probes, each with its name, its thresholds
//! and its place. Attaches nothing.

use super::elf::Image;
use super::error::Error;
use super::mapped;
use super::site::{self, Site};
use monitor_model::id::Pid;
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
    /// How many events one meeting of it is.
    pub times: Times,
}

/// How many events a meeting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// One.
    One,
    /// As many as the first argument of a call would say.
    Told,
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
        let (count, delay_seconds, times) = arguments(&it.arguments)?;
        let message = messages.iter().find(|(at, _)| *at == it.noted);
        let message = message.map_or_else(|| it.name.replace('_', " "), |(_, text)| text.clone());
        Some((Unusual { name: it.name, message, count, delay_seconds, times }, it.address))
    };
    let want = "C and T as constants, and a number in %rdi or none, in a note of monitor_diag";
    let wrong = || image.file.malformed(want);
    probes.map(|it| probe(it).ok_or_else(wrong)).collect()
}

/// `4@$1000 4@$60 8@%rdi`: a constant is `$` and a number, on x86, and a register its name.
fn arguments(text: &str) -> Option<(u64, u64, Times)> {
    let mut all = text.split(' ');
    let mut constant = || all.next()?.split_once("@$")?.1.parse().ok();
    let (count, delay) = (constant()?, constant()?);
    let times = match all.next() {
        None => Times::One,
        Some("8@%rdi") => Times::Told,
        Some(_) => return None,
    };
    (count > 0).then_some((count, delay, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_constants() {
        assert_eq!(arguments("4@$1000 4@$60"), Some((1000, 60, Times::One)));
        assert_eq!(arguments("4@$1000 4@$60 8@%rdi"), Some((1000, 60, Times::Told)));
        assert_eq!(arguments("4@$1000 4@$60 8@-8(%rbp)"), None);
        assert_eq!(arguments("4@$0 4@$60"), None);
        assert_eq!(arguments("4@%eax 4@$60"), None);
        assert_eq!(arguments(""), None);
    }
}
