//! The pages that the program writes are those in `docs/`: `cargo xtask docs` makes them.

use crate::served::monitor;

#[track_caller]
fn check(page: &str, words: &[&str]) {
    let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let committed = std::fs::read_to_string(path).unwrap();
    let output = monitor().args(words).output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.trim() == committed.trim(), "{page} is another; run `cargo xtask docs`");
}

#[test]
fn the_page_of_fields_is_what_the_program_prints() {
    check("FIELDS.md", &["fields", "--format=markdown"]);
}

#[test]
fn the_page_of_services_is_what_the_program_prints() {
    check("SERVICES.md", &["services", "--format=markdown"]);
}
