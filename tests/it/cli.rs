//! The command line: invalid arguments, closed pipes, full disks, help and completions.
//!
//! Runs the built binary. Tests that need a backend use the test backend with fixed values.

use std::process::{Command, Output, Stdio};

fn monitor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(args).env_remove("MONITOR_BACKEND").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    monitor(args).output().expect("the program runs")
}

/// What clap prints of the option and its values.
const BACKENDS: &str =
    "for '--backend <BACKEND>' [possible values: auto, ebpf, procfs, test, unsupported]";

#[track_caller]
fn refused(args: &[&str], line: &str) {
    let got = run(args);
    let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!((got.status.code(), stderr.as_str()), (Some(2), format!("{line}\n").as_str()));
    assert!(got.stdout.is_empty(), "standard output is empty");
}

#[test]
fn a_sample_without_a_matching_process_says_so() {
    let got = |words: &[&str]| {
        let all = [&["sample", "--backend", "test"], words].concat();
        let got = Command::new(env!("CARGO_BIN_EXE_monitor")).args(all).output().unwrap();
        (got.status.code(), String::from_utf8(got.stderr).unwrap())
    };
    let missing = "monitor: no process matches --comm nosuch --uid 7\n".to_owned();
    assert_eq!(got(&["--comm", "nosuch", "--uid", "7"]), (Some(6), missing));
    let missing = "monitor: no group matches --filter rss > 1T\n".to_owned();
    assert_eq!(got(&["--group-by", "user", "--filter", "rss > 1T"]), (Some(0), missing));
    assert_eq!(got(&["--comm", "test-stats"]), (Some(0), String::new()));
    let rate = "monitor: cpu_percent needs two readings: use monitor watch --count 2\n".to_owned();
    assert_eq!(got(&["--fields", "pid,cpu"]), (Some(0), rate));
}

#[test]
fn an_unknown_name_is_reported_in_one_line_with_the_nearest() {
    refused(
        &["sample", "--fields", "pid,rsss"],
        r#"monitor: unknown field "rsss"; did you mean "rss"?"#,
    );
    refused(
        &["fields", "--format", "jsno"],
        "monitor: invalid value 'jsno' for '--format <FORMAT>' [possible values: table, json, \
         markdown]; tip: a similar value exists: 'json'",
    );
    refused(
        &["sample", "--backend", "bpf"],
        &format!("monitor: invalid value 'bpf' {BACKENDS}; tip: a similar value exists: 'ebpf'"),
    );
    refused(
        &["doctor", "--format", "jsn"],
        "monitor: invalid value 'jsn' for '--format <FORMAT>' [possible values: table, json]; \
         tip: a similar value exists: 'json'",
    );
    let misspelled = "unrecognized subcommand 'smaple'; tip: some similar subcommands exist: \
                      'save', 'sample'";
    refused(&["smaple"], &format!("monitor: {misspelled}"));
    refused(
        &["sample", "--thread"],
        "monitor: unexpected argument '--thread' found; \
         tip: a similar argument exists: '--threads'",
    );
}

#[test]
fn an_unknown_backend_in_the_environment_is_refused_too() {
    let got =
        monitor(&["sample"]).env("MONITOR_BACKEND", "ebfp").output().expect("the program runs");
    assert_eq!(got.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&got.stderr);
    let tip = "tip: a similar value exists: 'ebpf'";
    assert_eq!(stderr, format!("monitor: invalid value 'ebfp' {BACKENDS}; {tip}\n"));
}

#[test]
fn an_invalid_value_is_reported_with_the_reason() {
    let invalid = |value: &str| format!("monitor: invalid value '{value}' for ");
    let every = invalid("0s") + "'--every <TIME>': the minimum is 1ms";
    refused(&["watch", "--every", "0s"], &every);
    let pid = "'--pid <PID,…>': invalid digit found in string";
    refused(&["sample", "--pid", "x"], &(invalid("x") + pid));
    let missing = "monitor: a value is required for '--pid <PID,…>' but none was supplied";
    refused(&["sample", "--pid"], missing);
    refused(
        &["sample", "--uid", "root,nosuch"],
        &(invalid("nosuch") + "'--uid <USER,…>': no user \"nosuch\" on this host"),
    );
}

#[test]
fn without_command_and_terminal_it_prints_short_help() {
    let got = run(&[]);
    let text = String::from_utf8_lossy(&got.stdout);
    assert_eq!(got.status.code(), Some(0));
    assert!(text.contains("Commands:") && text.contains("Exit codes:"));
}

#[test]
fn top_needs_a_terminal_and_a_valid_condition() {
    refused(&["top"], "monitor: top needs a terminal: use monitor watch or monitor sample");
    refused(
        &["top", "--filter", "cpu > 10 and cpuu > 1"],
        "monitor: --filter, column 14: unknown field \"cpuu\"; did you mean \"cpu\"?",
    );
    refused(
        &["top", "--tree", "--group-by", "job"],
        "monitor: --tree and --group-by cannot be combined: choose one",
    );
}

#[test]
fn the_help_of_top_lists_every_key() {
    let text = String::from_utf8(run(&["top", "--help"]).stdout).expect("text");
    for row in monitor_tui::key::BINDINGS {
        let line = format!("{:<14} {}", monitor_tui::key::names(row), row.help);
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn help_fits_eighty_columns_and_names_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["sample", "--help"],
        &["watch", "-h"],
        &["top", "--help"],
        &["doctor", "-h"],
    ] {
        let got = run(args);
        let text = String::from_utf8_lossy(&got.stdout).into_owned();
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!((got.status.code(), long), (Some(0), None), "{args:?}");
        assert!(text.contains("no such process"), "{args:?}");
    }
}

#[test]
fn a_closed_output_is_no_error() {
    for args in [&["fields"][..], &["completions", "bash"], &["man"], &["--help"]] {
        let mut child = monitor(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let got = child.wait_with_output().expect("the program exits");
        assert_eq!((got.status.code(), got.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    }
}

#[test]
fn an_unwritable_report_is_reported_and_never_loses_a_run() {
    let ended = |args: &[&str]| run(&[&["run", "--backend", "test"], args].concat());
    let full = ended(&["--output", "/dev/full", "--", "sh", "-c", "exit 9"]);
    assert_eq!(full.status.code(), Some(9), "the exit code of the command");
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
        assert!(text.contains("no such process"), "{page} lists the exit codes");
    }
    std::fs::remove_dir_all(dir).expect("a folder of this test");
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
fn completions_list_fields_for_every_command_and_no_hidden_command() {
    let text = String::from_utf8(run(&["completions", "bash"]).stdout).expect("text");
    let part = |command: &str| text.split(&format!("monitor__subcmd__{command})")).nth(1);
    let of_start = part("start").and_then(|rest| rest.split("monitor__subcmd__").next());
    assert!(of_start.is_some_and(|it| it.contains("cpu_percent")), "{of_start:?}");
    for shell in ["bash", "zsh", "fish"] {
        let text = String::from_utf8(run(&["completions", shell]).stdout).expect("text");
        assert_eq!(text.lines().find(|line| line.contains("user-worker")), None, "{shell}");
        assert!(text.contains("--version") || text.contains("-l version"), "{shell}");
    }
}

#[test]
fn help_is_a_command_too() {
    let (long, short) = (run(&["help", "sample"]), run(&["sample", "--help"]));
    assert_eq!((long.status.code(), &long.stdout), (Some(0), &short.stdout));
    let got = run(&["help", "smaple"]);
    assert_eq!(got.status.code(), Some(2));
}

#[test]
fn one_field_can_be_listed() {
    let got = run(&["fields", "cpu_ns", "--format", "json"]);
    let fields: serde_json::Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!(fields.as_array().map(Vec::len), Some(1));
    assert_eq!((&fields[0]["category"], &fields[0]["name"]), (&"process".into(), &"cpu_ns".into()));
    refused(&["fields", "rsss"], r#"monitor: unknown field "rsss"; did you mean "rss"?"#);
}

#[test]
fn short_names_and_conditions_of_top_are_those_of_every_command() {
    let csv = |args: &[&str]| {
        let got = run(&[&["sample", "--backend", "test", "--format", "csv"], args].concat());
        let error = String::from_utf8_lossy(&got.stderr).into_owned();
        assert_eq!((got.status.code(), error.as_str()), (Some(0), ""), "{args:?}");
        String::from_utf8(got.stdout).expect("text")
    };
    let short = csv(&["--fields", "pid,rss,time,thr", "--sort", "+mem"]);
    assert_eq!(short, csv(&["--fields", "pid,rss_bytes,cpu_ns,threads", "--sort", "+rss_bytes"]));
    let all = csv(&["--fields", "pid"]).lines().count();
    assert!(all > 1 && csv(&["--fields", "pid", "--filter", "rss > 0"]).lines().count() > 1);
    refused(
        &["watch", "--filter", "cpu > 10 and cpuu > 1"],
        "monitor: --filter, column 14: unknown field \"cpuu\"; did you mean \"cpu\"?",
    );
    refused(
        &["sample", "--filter", "cpu > 10"],
        "monitor: --filter: cpu_percent needs two readings: use monitor watch --count 2",
    );
}

#[test]
fn a_report_as_text_is_the_table() {
    for args in [&["sample", "--backend", "test"][..], &["fields"], &["services"]] {
        let of = |form| run(&[args, &["--format", form]].concat()).stdout;
        assert!(of("text").starts_with(of("table").split_at(3).0), "{args:?}");
    }
}

#[test]
fn watch_ends_after_a_time() {
    let args = ["watch", "--backend", "test", "--every", "10ms", "--for", "20ms"];
    let got = run(&[&args[..], &["--format", "csv", "--fields", "pid", "--top", "1"]].concat());
    let text = String::from_utf8(got.stdout).expect("text");
    assert_eq!((got.status.code(), text.lines().count()), (Some(0), 4), "{text}");
}

#[test]
fn an_unknown_name_without_similar_ones_gets_no_suggestion() {
    refused(
        &["sample", "--sort", "foo"],
        r#"monitor: unknown field "foo"; monitor fields lists them"#,
    );
}

#[test]
fn colour_is_used_on_terminals_unless_no_color_is_set() {
    for args in [&["watch", "--backend", "test", "--count", "1"][..], &["doctor", "--local"]] {
        let coloured = |no_color: Option<&str>| {
            let mut command = monitor(args);
            // As on a terminal.
            command.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
            command.envs(no_color.map(|value| ("NO_COLOR", value)));
            command.output().expect("the program runs").stdout.contains(&0x1b)
        };
        assert_eq!(coloured(None), args[0] == "watch", "{args:?}");
        assert!(!coloured(Some("1")), "{args:?}");
    }
}

#[test]
fn pmix_names_are_accepted_and_printed() {
    let args = ["sample", "--local", "--backend", "test", "--pmix", "--fields", "PMIX_PROC_RSS"];
    let got = run(&args);
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(text.starts_with(r#"[{"pmix.proc.res":[{"pmix.ppid":1234},{"pmix.hname":"#), "{text}");
    assert!(text.contains(r#"{"pmix.proc.rss":3.01"#), "{text}");
    refused(
        &["sample", "--pmix", "--format", "csv"],
        "monitor: the argument '--pmix' cannot be used with '--format <FORMAT>'",
    );
}
