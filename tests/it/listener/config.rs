//! One file: checked as a whole, shown with its origins, read again while the service runs.

use crate::deadline::until;
use crate::served::{Folder, Served, monitor, write};
use rustix::process::Signal;
use std::path::Path;
use std::process::Output;

fn run(words: &[&str], path: &Path) -> Output {
    monitor().args(words).arg(path).output().unwrap()
}

#[test]
fn every_error_is_printed_with_file_line_and_key_and_exit_code_2() {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(
        &path,
        "[limits]\nmonitrs = 3\nperiod = 7\n\n[policy]\nobserve-all = [\"@no-such-group\"]\n",
    );
    let got = run(&["config", "check"], &path);
    let said = String::from_utf8(got.stderr).unwrap();
    let path = path.display();
    assert_eq!(
        said,
        format!(
            "monitor: {path}:2: limits.monitrs: unknown key \"monitrs\"; did you mean \
             \"monitors\"?\n\
             monitor: {path}:3: limits.period: expected a time such as \"10ms\" or \"7d\", found \
             integer\n\
             monitor: {path}:6: policy.observe-all: no group \"no-such-group\" on this host\n"
        )
    );
    assert_eq!(got.status.code(), Some(2));
}

#[test]
fn a_named_file_that_is_not_there_is_an_error_and_no_service_starts_with_a_wrong_one() {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    assert_eq!(run(&["config", "check"], &path).status.code(), Some(2));
    write(&path, "[limits]\nmonitors = 0\n");
    assert_eq!(run(&["serve", "--config"], &path).status.code(), Some(2));
}

#[test]
fn what_holds_is_shown_with_where_it_came_from_and_can_be_read_back() {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(&path, "[limits]\nmonitors = 77\n");
    let got = monitor()
        .args(["config", "show", "--socket", "/run/here.sock", "--config"])
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    assert!(text.contains(&format!("monitors = 77  # {}:2\n", path.display())), "{text}");
    assert!(text.contains("path = \"/run/here.sock\"  # --socket or MONITOR_SOCKET\n"), "{text}");
    assert!(text.contains("period = \"10ms\"  # default\n"), "{text}");
    write(&path, &text);
    assert_eq!(run(&["config", "check"], &path).status.code(), Some(0));
}

#[test]
fn a_file_is_named_in_either_way_to_either_command() {
    let folder = Folder::new();
    let path = folder.join("monitor.toml");
    write(&path, "[limits]\nlease = \"forever\"\n");
    let check = ["config", "check"];
    for words in [&check[..], &["config", "check", "--config"], &["config", "show"]] {
        let got = run(words, &path);
        let said = String::from_utf8(got.stderr).unwrap();
        let why = "\"forever\": expected a time such as \"10ms\" or \"7d\"; \
                   units are ns, us, ms, s, m, h and d";
        assert!(said.ends_with(&format!("limits.lease: {why}\n")), "{said}");
        assert_eq!(got.status.code(), Some(2));
    }
    let both = run(&["config", "show", "--config", "/a"], &path);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_hangup_takes_a_good_file_and_leaves_the_old_one_for_a_wrong_one() {
    let served = Served::with("[limits]\nmonitors = 1\n");
    let start = |id: &str| {
        let mut talk = served.connect();
        let params = format!("{{\"id\":\"{id}\",\"fields\":[\"cpu_ns\"],\"every_ns\":1000000000}}");
        (talk.call("monitor", &params)["error"]["message"].as_str().map(str::to_owned), talk)
    };
    let (first, _one) = start("a");
    assert_eq!(first, None);
    assert!(start("b").0.is_some_and(|why| why.contains("limit \"monitors\"")));

    write(&served.config(), "[limits]\nmonitors = \"many\"\n");
    served.signal(Signal::HUP);
    until(|| served.log().contains("the configuration stays as it was").then_some(()));
    assert!(served.log().contains("monitor.toml:2: limits.monitors:"), "{}", served.log());
    assert!(start("b").0.is_some());

    write(&served.config(), "[limits]\nmonitors = 2\n[backend]\nname = \"procfs\"\n");
    served.signal(Signal::HUP);
    until(|| served.log().contains("the configuration was read again").then_some(()));
    let (second, _two) = start("b");
    assert_eq!(second, None);
}

#[test]
fn status_and_doctor_ask_the_service() {
    let served = Served::with("");
    let ask = |words: &[&str]| {
        let got = monitor().args(words).arg("--socket").arg(served.socket()).output().unwrap();
        (got.status.code(), String::from_utf8(got.stdout).unwrap())
    };
    let (code, text) = ask(&["status"]);
    assert_eq!(code, Some(0));
    assert!(text.contains(&format!("pid            {}\n", served.pid())), "{text}");
    let (_, text) = ask(&["status", "--format", "json"]);
    let own: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (own["connections"].as_u64(), own["budget"]["share"].as_f64()),
        (Some(1), Some(0.005))
    );
    let (code, text) = ask(&["doctor"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("backend test, by the daemon"), "{text}");
}

#[test]
fn a_service_that_was_named_and_is_not_there_is_exit_code_7() {
    for words in [["status"], ["doctor"]] {
        let got =
            monitor().args(words).args(["--socket", "/nowhere/monitor.sock"]).output().unwrap();
        assert_eq!(got.status.code(), Some(7));
        let said = String::from_utf8(got.stderr).unwrap();
        assert!(said.starts_with("monitor: no daemon answers at /nowhere/monitor.sock"), "{said}");
    }
}
