//! Versions of nats-server: the oldest that works, and those with holes that are known.

use super::finding::Finding;
use std::net::IpAddr;

/// The oldest version that the tests of this project run.
const FLOOR: Version = Version(2, 9, 10);
/// The oldest version of which the copies of several servers were equal after all faults of
/// `xtask soak cluster`; with 2.9.10 they were not.
const COPIES: Version = Version(2, 10, 27);
/// The first version of each line without the holes of <https://advisories.nats.io> up to 2026-18;
/// earlier lines have none.
const FIXED: [Version; 3] = [Version(2, 11, 16), Version(2, 12, 7), Version(2, 14, 0)];

/// The version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    /// Parses `2.9.10`; what follows a hyphen is ignored.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-').next()?.split('.').map(|part| part.parse().ok());
        let version = Self(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }

    /// Whether it has a hole that is known.
    fn has_holes(self) -> bool {
        let line = |it: Self| (it.0, it.1);
        let newest = FIXED[FIXED.len() - 1];
        let is_fixed = FIXED.iter().any(|it| line(*it) == line(self) && *it <= self);
        !is_fixed && self < newest
    }
}

/// Compares the version of a server at an address.
pub fn check(of: &str, text: &str, address: IpAddr) -> Finding {
    let check = "version";
    let Some(version) = Version::parse(text) else {
        let fix = "connect to a nats-server";
        return Finding::warning(of, check, format!("{text:?} is no version"), fix);
    };
    let advice = "install nats-server 2.14, or at least 2.12.7 or 2.11.16";
    if version < FLOOR {
        let Version(major, minor, patch) = FLOOR;
        let found = format!("{text} is older than {major}.{minor}.{patch}");
        return Finding::failed(of, check, found, advice);
    }
    match (version.has_holes(), address.is_loopback()) {
        (true, false) => {
            let found = format!("{text} has known holes, and listens beyond loopback");
            Finding::failed(of, check, found, advice)
        }
        (true, true) => {
            Finding::ok(of, check, format!("{text}, with known holes, on loopback only"))
        }
        (false, _) => Finding::ok(of, check, text),
    }
}

/// Compares the version of one of several servers: each has a copy of the order.
pub fn check_copies(of: &str, text: &str) -> Option<Finding> {
    let is_old = Version::parse(text).is_some_and(|version| version < COPIES);
    is_old.then(|| {
        let Version(major, minor, patch) = COPIES;
        let found = format!("with {text}, the copies of several servers may differ after kills");
        let fix = format!("install nats-server {major}.{minor}.{patch} or later on all servers");
        Finding::warning(of, "copies", found, fix)
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState;
    use super::*;

    #[track_caller]
    fn check_at(text: &str, address: &str, want: FindingState) {
        assert_eq!(check("s", text, address.parse().unwrap()).state, want, "{text}");
    }

    #[test]
    fn copies_of_an_old_server_may_differ() {
        let is_warned = |text| check_copies("s", text).is_some();
        assert_eq!(
            ["2.9.10", "2.10.26", "2.10.27", "2.12.7"].map(is_warned),
            [true, true, false, false]
        );
    }

    #[test]
    fn holes_matter_beyond_loopback_and_an_old_server_everywhere() {
        use FindingState::{Failed, Ok, Warning};
        check_at("2.9.10", "127.0.0.1", Ok);
        check_at("2.9.10", "10.0.0.1", Failed);
        check_at("2.9.9", "127.0.0.1", Failed);
        check_at("2.11.15", "10.0.0.1", Failed);
        check_at("2.11.16", "10.0.0.1", Ok);
        check_at("2.12.6", "10.0.0.1", Failed);
        check_at("2.12.7-RC.1", "10.0.0.1", Ok);
        check_at("2.13.1", "10.0.0.1", Failed);
        check_at("2.15.1", "10.0.0.1", Ok);
        check_at("latest", "10.0.0.1", Warning);
    }
}
