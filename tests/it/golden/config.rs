//! Every configuration key with its default, and the environment variables that the program reads.
//!
//! Variables of the screen (`NO_COLOR`, `TERM`, `COLORFGBG`, `LC_ALL`, `LC_CTYPE`, `LANG`) need a
//! terminal and are not tested here; `listener/unit.rs` tests those of systemd (`NOTIFY_SOCKET`,
//! `WATCHDOG_USEC`).

use super::{check, as_other_user, printed_with, program};
use crate::served::{Folder, write};
use std::path::Path;
use std::process::Command;

/// The configuration of an empty file.
fn defaults() -> String {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(&path, "");
    let words = ["config", "show", path.to_str().unwrap(), "--socket", "/run/x.sock"];
    shown(program(&words))
}

/// The lines `section.key = value` that `config show` prints, without comments and origins.
fn shown(command: Command) -> String {
    let (mut section, mut out) = ("", String::new());
    let text = printed_with(0, command);
    for line in text.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
        match line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(name) => section = name,
            None => {
                let value = line.split_once("  # ").map_or(line, |(value, _)| value);
                out += &format!("{section}.{value}\n");
            }
        }
    }
    out
}

#[test]
fn every_key_has_its_default() {
    check("config/defaults.txt", &defaults());
}

#[test]
fn every_key_is_taken_from_a_file() {
    let defaults = defaults();
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    // TOML accepts dotted keys: `limits.monitors = 2048`.
    write(&path, &defaults);
    let again = shown(program(&["config", "show", path.to_str().unwrap()]));
    assert_eq!(again, defaults);
}

/// The value of `key` that `config show` prints.
fn value(command: Command, key: &str) -> String {
    let all = shown(command);
    let line = all.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    line.unwrap_or_else(|| panic!("no {key} in {all}")).to_owned()
}

#[test]
fn own_variables_replace_options() {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(&path, "");
    let in_environment = |variable: &str, set: &str, key: &str| {
        let mut command = program(&["config", "show", path.to_str().unwrap()]);
        // A user other than root needs a folder for the socket.
        let _same = command.env("XDG_RUNTIME_DIR", "/run/user/7").env(variable, set);
        value(command, key)
    };
    assert_eq!(in_environment("MONITOR_SOCKET", "/run/y.sock", "socket.path"), "\"/run/y.sock\"");
    assert_eq!(in_environment("MONITOR_BACKEND", "procfs", "backend.name"), "\"procfs\"");
    assert_eq!(in_environment("MONITOR_LOG", "debug", "log.level"), "\"debug\"");
}

fn write_file(folder: &Folder, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write(Path::new(&path), text);
}

#[test]
fn configuration_and_socket_follow_the_xdg_variables() {
    let folder = Folder::new();
    write_file(&folder, "xdg/monitor/monitor.toml", "[limits]\nmonitors = 23\n");
    write_file(&folder, "home/.config/monitor/monitor.toml", "[limits]\nmonitors = 42\n");
    let show = || {
        let mut command = as_other_user(&folder, &["config", "show"]);
        let _same = command.env("XDG_RUNTIME_DIR", "/run/user/7");
        command
    };
    let mut by_home = show();
    let _same = by_home.env("HOME", folder.join("home"));
    assert_eq!(value(by_home, "limits.monitors"), "42");
    let mut by_xdg = show();
    let _same = by_xdg.env("HOME", folder.join("home")).env("XDG_CONFIG_HOME", folder.join("xdg"));
    assert_eq!(value(by_xdg, "limits.monitors"), "23");
    let mut socket = show();
    let _same = socket.env("HOME", folder.join("home"));
    assert_eq!(value(socket, "socket.path"), "\"/run/user/7/monitor/monitor.sock\"");
}

#[test]
fn a_table_is_as_wide_as_columns_says() {
    let widest = |columns: &str| {
        let mut command = program(&["sample", "--backend", "test"]);
        let _same = command.env("COLUMNS", columns);
        let text = printed_with(0, command);
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest("60") <= 60 && widest("200") > 80);
}
