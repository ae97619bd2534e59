//! What a user at a terminal sees and does, from the start of the program to its end.
//!
//! The backend with fixed values has one process, `test-stats`, which is not a real one: what is
//! done to processes is tried on real ones, from `/proc`, which needs no privilege.

use super::terminal::Terminal;
use crate::deadline::until;
use crate::served::{Folder, Served, monitor};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

const SIZE: (u16, u16) = (80, 24);
const FIXED: [&str; 4] = ["top", "--local", "--backend", "test"];
const PROC: [&str; 6] = ["top", "--local", "--backend", "procfs", "--every", "250ms"];

#[test]
fn a_key_ends_it_and_the_terminal_is_as_it_was() {
    for key in ["q", "\x03", "\x1b[21~"] {
        let mut terminal = Terminal::start(&FIXED, SIZE);
        terminal.shows("test-stats");
        terminal.types(key);
        assert_eq!(terminal.ends().code(), Some(0), "{key:?}");
        terminal.restored();
    }
}

#[test]
fn signals_end_it_and_the_terminal_is_as_it_was() {
    for (signal, code) in [(Signal::TERM, 0), (Signal::HUP, 0), (Signal::INT, 130)] {
        let mut terminal = Terminal::start(&FIXED, SIZE);
        terminal.shows("test-stats");
        let pid = Pid::from_raw(terminal.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(terminal.ends().code(), Some(code), "{signal:?}");
        terminal.restored();
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let mut terminal = Terminal::start(&FIXED, SIZE);
    terminal.shows("test-stats");
    terminal.close();
    assert_eq!(terminal.ends().code(), Some(0));
}

#[test]
fn without_a_command_on_a_terminal_the_program_is_the_screen() {
    let mut terminal = Terminal::run(
        Command::new("setsid")
            .arg("--ctty")
            .args(["env", "MONITOR_BACKEND=test"])
            .arg(env!("CARGO_BIN_EXE_monitor")),
        SIZE,
    );
    terminal.shows("test-stats");
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
}

#[test]
fn the_daemon_provides_samples_without_a_backend_in_the_client() {
    let served = Served::start("test");
    let socket = served.socket().to_str().unwrap();
    let terminal = Terminal::start(&["top", "--every", "250ms", "--socket", socket], (120, 40));
    terminal.shows("by the daemon");
    terminal.shows("test-stats --fixed");
    // Two readings later the table has rates, and the daemon's own cost is known.
    until(|| terminal.text().contains(" 0.0 ").then_some(()));
    terminal.shows("daemon");
    terminal.types("\r");
    terminal.shows("command test-stats --fixed");
    // By itself: with a letter behind it, it is that letter with Alt.
    terminal.types("\x1b");
    until(|| (!terminal.text().contains("command test-stats")).then_some(()));
    terminal.types("guser\r");
    terminal.shows("PROCS ENDED");
    terminal.shows("1000");
    terminal.types("\r");
    terminal.shows("/user = \"");
    terminal.shows("test-stats");
    drop(served);
    terminal.shows("connection to the daemon lost");
}

#[test]
fn too_small_a_terminal_gets_a_message_and_recovers() {
    let terminal = Terminal::start(&FIXED, (30, 6));
    terminal.shows("too small: 30x6");
    terminal.resize((120, 40));
    terminal.shows("test-stats --fixed");
    terminal.resize((20, 3));
    terminal.shows("too small: 20x3");
}

#[test]
fn colour_is_left_out_where_it_is_not_wanted() {
    let plain = Terminal::run(
        Command::new("setsid")
            .arg("--ctty")
            .args(["env", "NO_COLOR=1"])
            .arg(env!("CARGO_BIN_EXE_monitor"))
            .args(FIXED),
        SIZE,
    );
    plain.shows("test-stats");
    let coloured = Terminal::start(&FIXED, SIZE);
    coloured.shows("test-stats");
    assert!(coloured.is_coloured() && !plain.is_coloured());
}

#[test]
fn a_locale_without_unicode_gets_letters_alone() {
    let terminal = Terminal::run(
        Command::new("setsid")
            .arg("--ctty")
            .args(["env", "LC_ALL=C"])
            .arg(env!("CARGO_BIN_EXE_monitor"))
            .args(FIXED),
        SIZE,
    );
    assert!(terminal.shows("test-stats").is_ascii());
}

/// A process to be done something to; its name is the only one of its kind.
fn victim(name: &str) -> Child {
    let script = format!("ln -sf $(command -v sleep) {name} && exec ./{name} 1000");
    let mut command = Command::new("sh");
    let dir = std::env::temp_dir();
    command.args(["-c", &script]).current_dir(dir).stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_process_is_found_by_a_condition_and_ended_after_a_question() {
    let name = format!("vic{}", std::process::id());
    let mut victim = victim(&name);
    let terminal = Terminal::start(&PROC, (100, 24));
    terminal.shows("COMMAND");
    terminal.types(&format!("/comm = {name}\r"));
    let pid = victim.id().to_string();
    until(|| {
        let text = terminal.text();
        (text.contains(&pid) && !text.contains("systemd")).then_some(())
    });
    terminal.types("kterm\r");
    terminal.shows("send SIGTERM to process");
    terminal.types("n");
    terminal.shows("nothing was done");
    assert!(victim.try_wait().unwrap().is_none(), "no is no");
    terminal.types("kterm\r");
    terminal.shows("send SIGTERM to process");
    terminal.types("y");
    assert_eq!(victim.wait().unwrap().signal(), Some(15));
    terminal.shows("done: send SIGTERM");
    let _ = std::fs::remove_file(std::env::temp_dir().join(&name));
}

#[test]
fn a_mistake_in_a_condition_is_shown_at_its_place() {
    let terminal = Terminal::start(&FIXED, SIZE);
    terminal.shows("test-stats");
    terminal.types("/cpu > 1 and cpuu > 2");
    let text = terminal.shows("v unknown field \"cpuu\"; did you mean \"cpu\"?");
    let at = |line: &str, what: &str| line.find(what);
    let above = text.lines().find_map(|line| at(line, "v unknown")).unwrap();
    let below = text.lines().find_map(|line| at(line, "cpuu > 2")).unwrap();
    assert_eq!(above, below);
}

#[test]
fn the_shell_gets_the_terminal_while_it_is_suspended() {
    // Only a shell that controls jobs can be gone back to.
    let script =
        format!("{} {}; echo SHELL; read x; fg", env!("CARGO_BIN_EXE_monitor"), FIXED.join(" "));
    let mut command = Command::new("setsid");
    let terminal = Terminal::run(command.args(["--ctty", "bash", "-mc", &script]), SIZE);
    terminal.shows("test-stats");
    terminal.types("\x1a");
    terminal.shows("SHELL");
    terminal.restored();
    terminal.types("\r");
    terminal.shows("test-stats");
    terminal.types("q");
    terminal.restored();
}

#[test]
fn recordings_of_nodes_are_one_cluster_and_enter_opens_a_node_at_that_time() {
    let folder = Folder::new();
    let file = folder.join("run.mon");
    let recorded = ["record", "--local", "--backend", "test", "--every", "100ms", "--count", "30"];
    let first = folder.join("run.mon.n1");
    let status = monitor().args(recorded).arg(&first).status().unwrap();
    assert!(status.success());
    std::fs::copy(&first, folder.join("run.mon.n2")).unwrap();
    let words = ["top", "--replay", file.to_str().unwrap(), "--nodes"];
    let missing = monitor().args(words).arg("n3").stdin(Stdio::null()).output().unwrap();
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    let mut terminal = Terminal::start(&[&words[..], &["n[1-3]"]].concat(), SIZE);
    terminal.shows("no recording of n3");
    terminal.shows("cluster recorded");
    terminal.types(" ");
    terminal.shows("FROZEN");
    // To the beginning, and ten seconds on: the samples are a second apart.
    terminal.types("{{{{");
    terminal.shows(" 0ns of 29s");
    terminal.types("}");
    terminal.shows(" 10s of 29s");
    terminal.shows("n3   no record");
    terminal.types("\r");
    terminal.shows("test-stats");
    terminal.shows(" 10s of 29s");
    // The cluster goes to where the node was left.
    terminal.types("[");
    terminal.shows(" 9.0s of 29s");
    terminal.types("q");
    terminal.shows(" 9.0s of 29s");
    terminal.shows("cluster recorded");
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.restored();
}
