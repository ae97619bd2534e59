//! Generated pages: the pages in `docs/` match the output of the program.
//!
//! `cargo xtask docs` updates them.

use crate::served::monitor;

#[track_caller]
fn check(page: &str, args: &[&str]) {
    let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let committed = std::fs::read_to_string(path).unwrap();
    let output = monitor().args(args).output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.trim() == committed.trim(), "{page} is out of date; run `cargo xtask docs`");
}

#[test]
fn the_page_of_fields_is_up_to_date() {
    check("FIELDS.md", &["fields", "--format=markdown"]);
}

#[test]
fn the_page_of_services_is_up_to_date() {
    check("SERVICES.md", &["services", "--format=markdown"]);
}

#[test]
fn the_page_of_conformance_is_up_to_date() {
    check("CONFORMANCE.md", &["conformance", "--list", "--format=markdown"]);
}
