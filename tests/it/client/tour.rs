//! The commands of docs/TOUR.md show something, in the order in which they are typed.
//!
//! Times are shortened, and the service has a socket of its own; the rest is typed as printed.

use crate::root::privilege::granted;
use crate::served::{Folder, Served};
use crate::top::terminal::Terminal;
use std::path::Path;
use std::process::Command;

const TOUR: &str = include_str!("../../../docs/TOUR.md");

/// The commands of the part below a title.
fn commands(title: &str) -> Vec<String> {
    let part = TOUR.split("\n## ").find(|part| part.starts_with(title)).unwrap();
    let blocks = part.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("monitor "));
    lines.map(|line| line.replace("10s", "1s").replace("5s", "2s")).collect()
}

/// A folder to type commands in, where `monitor` is the program of this build.
fn folder() -> Folder {
    let folder = Folder::new();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_monitor"), folder.join("monitor")).unwrap();
    folder
}

/// Types a command, without a user in the environment as in a container, and checks that it shows
/// something.
#[track_caller]
fn check(folder: &Path, line: &str, socket: Option<&Path>) {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let typed = |command: &mut Command| {
        command
            .current_dir(folder)
            .env("PATH", &path)
            .env_remove("USER")
            .envs(socket.map(|socket| ("MONITOR_SOCKET", socket)));
    };
    if line.starts_with("monitor top") {
        let mut command = Command::new("setsid");
        typed(command.args(["--ctty", "sh", "-c", line]));
        let mut screen = Terminal::run(&mut command, (80, 24));
        screen.shows(" PID ");
        screen.types("q");
        assert_eq!(screen.ends().code(), Some(0), "{line}");
        return;
    }
    let mut command = Command::new("sh");
    typed(command.args(["-c", line]));
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // `doctor` has a code for what does not work everywhere.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{line}: {out}{err}");
    assert!(!out.is_empty() || err.contains(" samples, "), "{line}: {out}{err}");
    assert!(!out.contains("  0 processes  "), "{line}: {out}{err}");
}

#[test]
fn root_the_tour_of_a_node_shows_something() {
    if !granted("root_the_tour_of_a_node_shows_something") {
        return;
    }
    let folder = folder();
    let mut served = None;
    for line in commands("A node") {
        match line.split('&').next() {
            Some("monitor serve ") => served = Some(Served::start("auto")),
            _ => check(folder.path(), &line, served.as_ref().map(Served::socket)),
        }
    }
    assert!(served.is_some(), "the service is a part of the tour");
}

#[test]
fn the_tour_of_a_laptop_shows_something() {
    let folder = folder();
    let all = commands("A laptop");
    assert!(all.len() > 4, "{all:?}");
    for line in all {
        check(folder.path(), &line, None);
    }
}
