//! `job doctor`: the launchers of a search path, and what is missing.

use crate::served::{Folder, monitor};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn launchers_are_found_in_the_search_path_by_the_programs_behind_their_names() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name);
    for program in ["orterun", "mpiexec.hydra", "prterun", "bash"] {
        fs::write(path(program), "").unwrap();
    }
    // Of two names of one program the first is shown.
    for (name, program) in [
        ("mpirun.openmpi", "orterun"),
        ("mpirun", "orterun"),
        ("mpiexec", "mpiexec.hydra"),
        ("mpirun.other", "bash"),
    ] {
        symlink(path(program), path(name)).unwrap();
    }
    let mut command = monitor();
    command.args(["job", "doctor", "--format", "json"]).env("PATH", path(""));
    let got = command.output().unwrap();
    assert!(matches!(got.status.code(), Some(0 | 3)), "{got:?}");
    let report: Value = serde_json::from_slice(&got.stdout).unwrap();
    let name = |it: &Value| it.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let launchers = report["launchers"].as_array().unwrap();
    let line = |it: &Value| {
        format!("{} {} {}", name(&it["runtime"]), name(&it["path"]), name(&it["program"]))
    };
    let lines: Vec<String> = launchers.iter().map(line).collect();
    let want = ["hydra mpiexec mpiexec.hydra", "openmpi4 mpirun orterun", "prrte prterun prterun"];
    assert_eq!(lines, want);
    // 3 says that something is missing, and that is named.
    let missing = report["needs"].as_array().unwrap().iter().any(|it| !it["missing"].is_null());
    assert_eq!(got.status.code() == Some(3), missing, "{report:#}");
}
