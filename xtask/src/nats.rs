//! `cargo xtask nats`: nats-server of Debian 13, so that tests have a newer one beside that of this
//! machine.
//!
//! In: nothing. Out: `target/nats/nats-server`. Nothing is installed. Needs apt and dpkg.

use crate::arguments::Arguments;
use crate::debian::{Apt, TRIXIE, unpack};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, target};
use std::fs;

const PACKAGE: &str = "nats-server";

/// Fetches and unpacks it, unless it is there.
pub fn run(_arguments: &Arguments) -> Outcome {
    let folder = target().join("nats");
    let program = folder.join(PACKAGE);
    if program.exists() {
        return Ok(());
    }
    let apt = Apt::new(&TRIXIE, &folder)?;
    let _ = step::output(&mut apt.call("apt-get", &["--quiet", "update"]))?;
    // The program has no library but that of C, of which that of this machine will do.
    let archives = folder.join("apt/cache/archives");
    let mut download = apt.call("apt-get", &["--quiet", "download", PACKAGE]);
    let _ = step::output(download.current_dir(&archives))?;
    let root = folder.join("root");
    unpack(&archives, &root)?;
    let from = root.join("usr/sbin").join(PACKAGE);
    fs::rename(&from, &program).map_err(|error| cannot("rename", &from, &error))
}
