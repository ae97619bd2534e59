//! `cargo xtask pictures`: the pictures of README and docs, from real runs on this machine.
//!
//! In: the tests that can draw (`tests/it/picture.rs`, `tests/it/web/page.rs`). Out:
//! `docs/pictures`, for the eye of whoever commits them: no check compares them, because no two
//! runs are the same.

use crate::workspace::{cannot, root};
use crate::{Outcome, step};
use std::fs;

/// What a browser takes besides is for those who work on the page: it shows whoever runs here.
const SHOWN: &[&str] = &["filtered-light.png"];

/// Runs them with optimisations, so that what the monitor says of its own cost is true.
pub fn run(_option: Option<&str>) -> Outcome {
    let pictures = root().join("docs/pictures");
    fs::create_dir_all(&pictures).map_err(|error| cannot("make", &pictures, &error))?;
    let mut command = step::cargo();
    command.args(["test", "--release", "--locked", "--package=monitor-user", "--test=it", "--"]);
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
