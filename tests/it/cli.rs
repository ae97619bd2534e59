//! The program as a stranger meets it: wrong words, closed pipes, full disks.
//!
//! Drives the built binary. What needs a backend asks for the one with fixed values.

use std::process::{Command, Output, Stdio};

fn monitor(words: &[&str]) -> Command {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    it.args(words).env_remove("MONITOR_BACKEND").stdin(Stdio::null());
    it
}

fn run(words: &[&str]) -> Output {
    monitor(words).output().expect("the program runs")
}

#[track_caller]
fn refused(words: &[&str], line: &str) {
    let got = run(words);
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!((got.status.code(), said.as_str()), (Some(2), format!("{line}\n").as_str()));
    assert!(got.stdout.is_empty(), "nothing else is printed");
}

#[test]
fn a_wrong_name_is_one_line_with_the_nearest_right_one() {
    refused(
        &["sample", "--fields", "pid,rss"],
        r#"monitor: unknown field "rss"; did you mean "rss_bytes"?"#,
    );
    refused(
        &["watch", "--format", "jsno"],
        r#"monitor: unknown format "jsno"; did you mean "json"?"#,
    );
    refused(
        &["sample", "--backend", "bpf"],
        r#"monitor: unknown backend "bpf"; did you mean "ebpf"?"#,
    );
    refused(
        &["doctor", "--format", "jsn"],
        r#"monitor: unknown format "jsn"; did you mean "json"?"#,
    );
    refused(&["smaple"], r#"monitor: unknown command "smaple"; did you mean "sample"?"#);
    refused(
        &["sample", "--thread"],
        r#"monitor: unknown option "--thread"; did you mean "--threads"?"#,
    );
}

#[test]
fn a_wrong_backend_in_the_environment_is_refused_too() {
    let got = monitor(&["sample"]).env("MONITOR_BACKEND", "ebfp").output().expect("it runs");
    assert_eq!(got.status.code(), Some(2));
    let said = String::from_utf8_lossy(&got.stderr);
    assert_eq!(said, "monitor: unknown backend \"ebfp\"; did you mean \"ebpf\"?\n");
}

#[test]
fn a_value_without_sense_says_why() {
    refused(&["watch", "--every", "0s"], r#"monitor: every "0s": the shortest is 1ms"#);
    refused(&["sample", "--pid", "x"], r#"monitor: pid "x": write a whole number"#);
    refused(&["sample", "--pid"], "monitor: --pid <PID,…> needs a value");
    refused(
        &["sample", "--uid", "root,nosuch"],
        r#"monitor: uid "nosuch": there is no user of that name"#,
    );
}

#[test]
fn alone_and_not_on_a_terminal_it_prints_short_help() {
    let got = run(&[]);
    let text = String::from_utf8_lossy(&got.stdout);
    assert_eq!(got.status.code(), Some(0));
    assert!(text.contains("Commands:") && text.contains("Exit codes:"));
}

#[test]
fn the_screen_needs_a_terminal_and_conditions_that_make_sense() {
    refused(
        &["top"],
        "monitor: top needs a terminal for keys and screen: use monitor watch or sample",
    );
    refused(
        &["top", "--filter", "cpu > 10 and cpuu > 1"],
        "monitor: --filter, column 14: unknown field \"cpuu\"; did you mean \"cpu\"?",
    );
    refused(
        &["top", "--tree", "--group-by", "job"],
        "monitor: --tree is of processes, --group-by of many: choose one",
    );
}

#[test]
fn the_manual_of_the_screen_lists_every_key_that_it_has() {
    let text = String::from_utf8(run(&["top", "--help"]).stdout).expect("text");
    for row in monitor_tui::key::BINDINGS {
        let line = format!("{:<14} {}", monitor_tui::key::names(row), row.help);
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn help_fits_eighty_columns_and_names_the_exit_codes() {
    for words in [
        &["--help"][..],
        &["sample", "--help"],
        &["watch", "-h"],
        &["top", "--help"],
        &["doctor", "-h"],
    ] {
        let got = run(words);
        let text = String::from_utf8_lossy(&got.stdout).into_owned();
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!((got.status.code(), long), (Some(0), None), "{words:?}");
        assert!(text.contains("no such process"), "{words:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for words in [&["fields"][..], &["completions", "bash"], &["man"], &["--help"]] {
        let mut child = monitor(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let got = child.wait_with_output().expect("it ends");
        assert_eq!((got.status.code(), got.stderr.as_slice()), (Some(0), &b""[..]), "{words:?}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_told_and_costs_no_run() {
    let ended = |words: &[&str]| run(&[&["run", "--backend", "test"], words].concat());
    let full = ended(&["--output", "/dev/full", "--", "sh", "-c", "exit 9"]);
    assert_eq!(full.status.code(), Some(9), "the code of the command");
    assert!(String::from_utf8_lossy(&full.stderr).starts_with("monitor: cannot write /dev/full"));
    let nowhere = ended(&["--output", "/no/such/dir", "--", "echo", "ran"]);
    assert_eq!((nowhere.status.code(), nowhere.stdout.as_slice()), (Some(1), &b""[..]));
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = std::env::temp_dir().join(format!("monitor-man-{}", std::process::id()));
    let got = run(&["man", dir.to_str().expect("a path of text")]);
    assert_eq!(got.status.code(), Some(0));
    for page in
        ["monitor.1", "monitor-sample.1", "monitor-watch.1", "monitor-top.1", "monitor-doctor.1"]
    {
        let text = std::fs::read_to_string(dir.join(page)).expect("the page is written");
        assert!(text.contains("no such process"), "{page} tells the exit codes");
    }
    std::fs::remove_dir_all(dir).expect("the folder was ours");
}

#[test]
fn completions_know_the_fields_and_the_backends() {
    for shell in ["bash", "zsh", "fish"] {
        let text = String::from_utf8(run(&["completions", shell]).stdout).expect("text");
        for name in ["cpu_percent", "received_bytes_per_s", "procfs", "--signals"] {
            // fish writes long options without their hyphens.
            assert!(text.contains(name.trim_start_matches('-')), "{shell}: {name}");
        }
    }
}

#[test]
fn completions_offer_fields_of_every_command_that_takes_them_and_no_internal_one() {
    let text = String::from_utf8(run(&["completions", "bash"]).stdout).expect("text");
    let part = |command: &str| text.split(&format!("monitor__subcmd__{command})")).nth(1);
    let of_start = part("start").and_then(|rest| rest.split("monitor__subcmd__").next());
    assert!(of_start.is_some_and(|it| it.contains("cpu_percent")), "{of_start:?}");
    for shell in ["bash", "zsh", "fish"] {
        let text = String::from_utf8(run(&["completions", shell]).stdout).expect("text");
        let word = |line: &str| line.split(|it: char| !it.is_alphanumeric()).any(|it| it == "hand");
        assert_eq!(text.lines().find(|line| word(line)), None, "{shell}");
        assert!(text.contains("--version") || text.contains("-l version"), "{shell}");
    }
}

#[test]
fn help_is_a_command_too() {
    let (long, short) = (run(&["help", "sample"]), run(&["sample", "--help"]));
    assert_eq!((long.status.code(), &long.stdout), (Some(0), &short.stdout));
    refused(&["help", "smaple"], r#"monitor: unknown command "smaple"; did you mean "sample"?"#);
}

#[test]
fn one_field_can_be_asked_for() {
    let got = run(&["fields", "cpu_ns", "--format", "json"]);
    let fields: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(fields.as_array().map(Vec::len), Some(1));
    assert_eq!((&fields[0]["category"], &fields[0]["name"]), (&"process".into(), &"cpu_ns".into()));
    refused(&["fields", "rss"], r#"monitor: unknown field "rss"; did you mean "rss_bytes"?"#);
}

#[test]
fn what_is_unlike_everything_is_not_taken_for_something() {
    refused(
        &["sample", "--sort", "foo"],
        r#"monitor: unknown field "foo"; monitor fields lists them"#,
    );
}

#[test]
fn colour_is_for_terminals_and_no_color_takes_it_from_them() {
    for words in [&["watch", "--backend", "test", "--count", "1"][..], &["doctor", "--local"]] {
        let coloured = |no_color: Option<&str>| {
            let mut it = monitor(words);
            // As on a terminal.
            it.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
            it.envs(no_color.map(|value| ("NO_COLOR", value)));
            it.output().expect("it runs").stdout.contains(&0x1b)
        };
        assert_eq!(coloured(None), words[0] == "watch", "{words:?}");
        assert!(!coloured(Some("1")), "{words:?}");
    }
}

#[test]
fn the_names_of_pmix_are_understood_and_printed() {
    let words = ["sample", "--local", "--backend", "test", "--pmix", "--fields", "PMIX_PROC_RSS"];
    let got = run(&words);
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(text.starts_with(r#"[{"pmix.proc.res":[{"pmix.ppid":1234},{"pmix.hname":"#), "{text}");
    assert!(text.contains(r#"{"pmix.proc.rss":3.01"#), "{text}");
    refused(
        &["sample", "--pmix", "--format", "csv"],
        "monitor: the argument '--pmix' cannot be used with '--format <FORMAT>'",
    );
}
