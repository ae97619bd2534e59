//! `cargo xtask pictures`: the pictures of README and docs, from real runs on this machine.
//!
//! In: the tests that can draw (`tests/it/picture.rs`, `tests/it/web/page.rs`). Out:
//! `docs/pictures`, to be reviewed before they are committed: no check compares them, because no
//! two runs are the same.

use crate::arguments::Arguments;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{PACKAGE, PROFILE, cannot, root};
use std::fs;

/// The pictures of the browser that are committed; the others show the processes of this machine.
const SHOWN: &[&str] = &["filtered-light.png"];

/// Runs them with optimisations, so that the cost that the monitor shows is the real one.
pub fn run(_arguments: &Arguments) -> Outcome {
    let pictures = root().join("docs/pictures");
    fs::create_dir_all(&pictures).map_err(|error| cannot("make", &pictures, &error))?;
    let mut command = step::cargo();
    command.args([
        "test",
        "--profile",
        PROFILE,
        "--locked",
        "--package",
        PACKAGE,
        "--test=it",
        "--",
    ]);
    command.args(["root_pictures", "root_the_page", "--test-threads=1"]);
    step::run(command.env("MONITOR_PICTURES", &pictures).env("MONITOR_REQUIRE_ROOT", "1"))?;
    let taken = fs::read_dir(&pictures).map_err(|error| cannot("list", &pictures, &error))?;
    for file in taken.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".png") && !SHOWN.contains(&name.as_str()) {
            fs::remove_file(file.path()).map_err(|error| cannot("remove", &file.path(), &error))?;
        }
    }
    Ok(())
}
