//! `cargo xtask nats`: nats-server of Debian 13, so that tests have a newer one beside that of this
//! machine.
//!
//! In: nothing. Out: `target/nats/nats-server`. Nothing is installed. Needs apt and dpkg.

use crate::arguments::Arguments;
use crate::debian::{Fetch, TRIXIE, fetch};
use crate::verdict::Outcome;
use crate::workspace::{cannot, target};
use std::fs;
use std::path::PathBuf;

const PACKAGE: &str = "nats-server";

/// Fetches and unpacks it, unless it is there.
pub fn run(_arguments: &Arguments) -> Outcome {
    program().map(drop)
}

/// The program, which is fetched and unpacked unless it is there.
pub fn program() -> Result<PathBuf, String> {
    let folder = target().join("nats");
    let program = folder.join(PACKAGE);
    if program.exists() {
        return Ok(program);
    }
    // The program has no library but that of C, of which that of this machine will do.
    let root = fetch(&TRIXIE, &folder, (PACKAGE, Fetch::Alone))?;
    let from = root.join("usr/sbin").join(PACKAGE);
    fs::rename(&from, &program).map_err(|error| cannot("rename", &from, &error))?;
    Ok(program)
}
