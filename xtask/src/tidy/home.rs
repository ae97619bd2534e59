//! The homes of third-party crates: each is used in one part of the user half.
//!
//! In: the paths of a file, and the dependencies of `monitor-user`. Out: uses away from home, and
//! dependencies that nobody gave a home. Replacing a library then means rewriting one folder.

use super::path::{Path, own_names};
use super::source::Source;
use super::{Finding, finding};

const FOLDER: &str = "monitor-user/src/";
/// A part of every layer: types and traits, no acts.
const ANYWHERE: &[&str] = &[""];

/// A crate and the folders below `monitor-user/src` that may name it.
const HOMES: &[(&str, &[&str])] = &[
    (
        "monitor_ebpf",
        &["model/", "backend/ebpf/", "backend/inet_diag/", "backend/rule/", "backend/tcp.rs"],
    ),
    ("aya", &["backend/ebpf/"]),
    ("aya_log", &["backend/ebpf/"]),
    ("aya_obj", &["backend/ebpf/"]),
    ("log", &["backend/ebpf/"]),
    ("tracing_subscriber", &["cli/log.rs"]),
    ("procfs", &["backend/procfs/", "backend/host.rs", "control/"]),
    ("blazesym", &["control/unwind.rs"]),
    ("framehop", &["control/unwind.rs"]),
    ("postcard", &["control/hand/"]),
    ("backon", &["client/"]),
    ("bytes", &["backend/ebpf/", "serve/", "client/"]),
    ("hyper", &["serve/http/", "serve/otlp/"]),
    ("hyper_util", &["serve/http/", "serve/otlp/"]),
    ("if_addrs", &["backend/"]),
    ("tokio_util", &["serve/", "client/"]),
    ("sd_notify", &["daemon/"]),
    ("toml", &["daemon/"]),
    ("memmap2", &["sys/", "backend/"]),
    ("libc", &["sys/"]),
    ("netlink_packet_core", &["backend/inet_diag/"]),
    ("netlink_packet_sock_diag", &["backend/inet_diag/"]),
    ("netlink_sys", &["backend/inet_diag/"]),
    ("prost", &["format/exposition/"]),
    ("regex_lite", &["meter/group/"]),
    ("nix", &["sys/", "control/"]),
    ("rustix", &["sys/", "control/", "backend/", "probe/", "record/", "serve/", "daemon/", "cli/"]),
    ("gimli", &["probe/elf/"]),
    ("iced_x86", &["control/trace/boundary.rs", "probe/instruction.rs"]),
    ("object", &["control/", "probe/elf/"]),
    ("hdrhistogram", &["model/", "meter/"]),
    ("serde", ANYWHERE),
    (
        "serde_json",
        &[
            "format/",
            "wire/",
            "engine/",
            "serve/",
            "client/",
            "cli/",
            "record/",
            "service/monitor/",
        ],
    ),
    ("serde_path_to_error", &["wire/"]),
    ("base64", &["wire/"]),
    ("crc32c", &["record/"]),
    ("csv", &["format/"]),
    ("crossterm", &["serve/tui/"]),
    ("ratatui", &["serve/tui/"]),
    ("unicode_width", &["format/", "serve/tui/", "cli/"]),
    ("clap", &["cli/"]),
    ("clap_complete", &["cli/"]),
    ("clap_mangen", &["cli/"]),
    ("anstream", &["cli/"]),
    ("humantime", &["format/", "daemon/", "cli/"]),
    ("strsim", &["model/"]),
    ("parquet", &["format/parquet.rs"]),
    ("percent_encoding", &["serve/http/"]),
    ("subtle", &["serve/http/"]),
    ("tokio", &["cluster/link.rs", "serve/", "client/", "daemon/", "cli/", "sys/readable.rs"]),
    ("tokio_rustls", &["serve/http/"]),
    ("anstyle", &["cli/", "format/"]),
    ("jiff", &["format/", "cli/"]),
    ("thiserror", ANYWHERE),
    ("tracing", ANYWHERE),
    ("winnow", &["omis/parse/", "meter/expression/", "probe/description/parse.rs"]),
    ("zerocopy", ANYWHERE),
    ("zstd", &["record/"]),
];

/// Uses of a crate away from its home.
pub fn check(source: &Source, paths: &[Path]) -> Vec<Finding> {
    let Some(inside) = source.path.strip_prefix(FOLDER) else { return Vec::new() };
    let own_names = own_names(source, paths);
    let is_ours = |path: &Path| !path.is_global && own_names.contains(&path.segments[0]);
    let mut findings = Vec::new();
    for path in paths.iter().filter(|path| !path.segments.is_empty() && !is_ours(path)) {
        let Some((name, homes)) = HOMES.iter().find(|(name, _)| path.segments[0] == *name) else {
            continue;
        };
        if !homes.iter().any(|home| inside.starts_with(home)) {
            findings.push(finding(
                path.line,
                format!("`{name}` is used outside its home ({})", homes.join(", ")),
                "one library has one home, so that it can be replaced by rewriting one folder",
                "call the home's own functions, or add the folder to xtask/src/tidy/home.rs",
            ));
        }
    }
    findings
}

/// Dependencies in `monitor-user/Cargo.toml` that have no row.
pub fn check_manifest(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    for (line, text) in (1..).zip(text.lines()) {
        if text.starts_with('[') {
            section = text;
        }
        let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
        let is_row = name.starts_with(|first: char| first.is_ascii_lowercase());
        let crate_name = name.replace('-', "_");
        if section.ends_with("dependencies]")
            && !section.contains("dev-")
            && !section.contains("build-")
            && is_row
            && !HOMES.iter().any(|(home, _)| *home == crate_name)
        {
            findings.push(finding(
                line,
                format!("the dependency `{name}` has no home"),
                "a library without a home spreads until it cannot be replaced",
                "add a row to xtask/src/tidy/home.rs",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::path::paths;
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: usize) {
        let source = Source::new(path, text).expect("the case is Rust");
        let paths = paths(&source, &super::super::layer::module(path));
        assert_eq!(check(&source, &paths).len(), expected);
    }

    #[test]
    fn a_crate_is_used_at_home_only() {
        check_file("monitor-user/src/backend/ebpf/mod.rs", "use aya::Ebpf;", 0);
        check_file("monitor-user/src/meter/mod.rs", "use aya::Ebpf;", 1);
        check_file("monitor-user/src/meter/mod.rs", "fn f() { aya::x(); ::clap::y() }", 2);
    }

    #[test]
    fn a_module_of_the_same_name_is_no_crate() {
        let path = "monitor-user/src/backend/mod.rs";
        check_file(path, "mod procfs; fn f() { procfs::open() }", 0);
        check_file(path, "use crate::backend::procfs; fn f() { procfs::open() }", 0);
    }

    #[test]
    fn every_dependency_needs_a_row() {
        let text = "[dependencies]\naya = \"1\"\nleft-pad = \"1\"\n[lints]\nworkspace = true\n";
        let found = check_manifest(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
    }
}
