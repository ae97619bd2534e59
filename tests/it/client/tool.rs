//! The example tools of the manual in Rust, Python and C, each with a daemon with fixed values.

use crate::served::{Folder, Served};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "../../../docs/examples/tool.rs"]
mod example;

/// The replies when a user event is raised twice.
const RAISED: [&str; 5] =
    ["1 [0] define_user_event(0)", "2 [0] user_event(0)", "4 [0] enable(0)", "", ""];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of the examples.
pub fn examples() -> PathBuf {
    root().join("docs/examples")
}

/// Compiles an example in C, and returns the program. It finds the library, which cargo builds
/// beside this program, in this folder.
pub fn c_example(folder: &Folder, name: &str) -> PathBuf {
    let library = std::env::current_exe().expect("a program").with_file_name("libomis.so");
    for name in ["libomis.so", "libomis.so.1"] {
        std::os::unix::fs::symlink(&library, folder.join(name)).expect("a link");
    }
    let program = folder.join(name);
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
    compile.arg(examples().join(format!("{name}.c")));
    compile.arg("-I").arg(root().join("monitor-user/crates/client/capi/include"));
    compile.arg("-L").arg(folder.path()).arg("-lomis");
    compile.arg(format!("-Wl,-rpath,{}", folder.path().display()));
    assert!(compile.status().expect("cc is there").success());
    program
}

#[test]
fn the_example_in_rust_gets_every_event() {
    let service = Served::start("test");
    assert_eq!(example::nodes(service.socket()).expect("a reply"), "1 [0] number_of_nodes(0,1)");
    let replies = example::raised(service.socket()).expect("replies");
    assert_eq!(
        replies,
        ["2 [0] user_event(0)", r#"3 [0] print(0,["a"])"#, r#"3 [0] print(0,["b"])"#]
    );
}

#[test]
fn the_example_in_python_prints_replies_and_events() {
    let service = Served::start("test");
    let mut command = Command::new("python3");
    command.arg(examples().join("omis.py")).arg(service.socket()).args([
        "1 [] define_user_event(7)",
        "2 [0] user_event(7): 3 [0] print($1)",
        "4 [0] enable(2)",
        "5 [0] raise_event(7,[8])",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("python3 is there");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let replies: Vec<String> = lines.take(5).map(|line| line.expect("text")).collect();
    assert_eq!(replies[..3], RAISED[..3]);
    assert_eq!(replies[3..], ["5 [0] raise_event(0)", "3 [0] print(0,[8])"]);
    // It waits for more events.
    child.kill().expect("python3 runs");
    child.wait().expect("it ends");
}

#[test]
fn the_example_in_c_waits_and_gets_callbacks() {
    let service = Served::start("test");
    let folder = Folder::new();
    let program = c_example(&folder, "omis");
    let mut run = Command::new(&program);
    run.arg("2").env("MONITOR_SOCKET", service.socket());
    let out = run.output().expect("it runs");
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stdout).expect("text");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[0], "0 [0] number_of_nodes(0,1)");
    for line in RAISED.iter().filter(|line| !line.is_empty()) {
        assert!(said.contains(line), "{line} is not in {said:?}");
    }
    let mut called = said.iter().filter(|line| line.starts_with("3 [0] print"));
    assert_eq!(called.next(), Some(&"3 [0] print(0,[1])"));
    assert_eq!(called.next(), Some(&"3 [0] print(0,[2])"));

    // No daemon listens there: both procedures report that as a reply.
    let out = run.env("MONITOR_SOCKET", "/nowhere").output().expect("it runs");
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stdout).expect("text");
    assert!(said.starts_with("0 [] error(201,0,\"no daemon answers at /nowhere"), "{said}");
}
