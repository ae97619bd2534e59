//! The unit that is shipped: it is sound, tight, and its capabilities are enough.

use crate::deadline::until;
use crate::root::privilege::{able, skip};
use crate::root::workload::is_forbidden;
use crate::served::{Folder, Served, monitor, write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The user that the service runs as here.
const USER: &str = "61236";
/// Worst that `systemd-analyze security` may find, of 10.
const EXPOSURE: f64 = 2.5;

/// The service, and the PMIx server of the node.
const UNITS: [&str; 2] = ["monitor.service", "monitor-rendezvous.service"];

fn unit(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/packaging");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// The capabilities that the unit of the service gives.
fn capabilities(key: &str) -> Vec<String> {
    capabilities_of(UNITS[0], key)
}

/// The capabilities that a unit gives.
pub fn capabilities_of(name: &str, key: &str) -> Vec<String> {
    let unit = unit(name);
    let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap();
    value.split_whitespace().map(|it| it.trim_start_matches("CAP_").to_lowercase()).collect()
}

/// The program as the unit would run it, with these capabilities alone.
fn confined(capabilities: &[String]) -> Command {
    let plus: String = capabilities.iter().map(|it| format!(",+{it}")).collect();
    let mut it = Command::new("setpriv");
    it.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs"]);
    for set in ["--bounding-set", "--inh-caps", "--ambient-caps"] {
        it.arg(format!("{set}=-all{plus}"));
    }
    it.arg(env!("CARGO_BIN_EXE_monitor"));
    for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG"] {
        it.env_remove(variable);
    }
    it
}

/// A service by such a program, in a folder that its user may write to.
fn served(capabilities: &[String]) -> Served {
    // The user may not be allowed to read the program where it was built.
    let place = Folder::new();
    let program = place.join("monitor");
    let _bytes = std::fs::copy(env!("CARGO_BIN_EXE_monitor"), &program).unwrap();
    let built = confined(capabilities);
    let mut command = Command::new(built.get_program());
    for word in built.get_args() {
        let own = word == env!("CARGO_BIN_EXE_monitor");
        command.arg(if own { program.as_os_str() } else { word });
    }
    for (key, value) in built.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    Served::owned_by(USER.parse().unwrap(), command, "auto")
}

#[test]
fn root_the_capabilities_of_the_unit_are_enough_for_ebpf() {
    if !able("root_the_capabilities_of_the_unit_are_enough_for_ebpf") {
        return;
    }
    let given = capabilities("AmbientCapabilities");
    assert_eq!(given, capabilities("CapabilityBoundingSet"));
    let served = served(&given);
    let mut session = served.connect();
    let probes = session.result("probes", "{}");
    assert_eq!(
        (&probes["backend"], &probes["uid"]),
        (&"ebpf".into(), &USER.parse::<u32>().unwrap().into())
    );
    for name in ["snapshot", "lifetimes", "tcp"] {
        let all = probes["capabilities"].as_array().unwrap();
        let it = all.iter().find(|it| it["name"] == name).unwrap();
        if it["why"].as_str().is_some_and(is_forbidden) {
            println!("not tested: {it}");
            continue;
        }
        assert!(["active", "exact"].contains(&it["state"].as_str().unwrap()), "{it}");
    }
    // Root's own process, whose I/O /proc would not show to this user.
    let pid = std::process::id();
    let params = format!(
        "{{\"fields\":[\"read_call_bytes\",\"run_delay_ns\"],\"targets\":[{{\"pid\":{pid}}}]}}"
    );
    let sample = session.result("monitor", &params);
    let row = &sample["sample"]["processes"][0];
    assert!(row["read_call_bytes"].as_u64().is_some_and(|n| n > 0), "{sample}");
}

#[test]
fn root_each_opt_in_capability_has_a_state_or_a_reason_under_the_unit() {
    if !able("root_each_opt_in_capability_has_a_state_or_a_reason_under_the_unit") {
        return;
    }
    let served = served(&capabilities("AmbientCapabilities"));
    let mut session = served.connect();
    let asked = r#"{"fields":["cpu_ns"],"capabilities":["block","write-back","sockets",
        "run-queue","exact-cpu","signals"]}"#;
    let asked = asked.replace('\n', "");
    let params = asked.replacen('{', r#"{"every_ns":1000000000,"#, 1);
    let _sample = session.result("monitor", &params);
    let probes = served.connect().result("probes", "{}");
    for it in probes["capabilities"].as_array().unwrap() {
        println!("{}: {} {}", it["name"], it["state"], it["why"]);
        let is_explained = it["state"] == "active" || it["state"] == "off" || it["why"].is_string();
        assert!(is_explained, "{it}");
    }
}

#[test]
fn root_without_capabilities_it_reads_proc_with_a_note() {
    if !able("root_without_capabilities_it_reads_proc_with_a_note") {
        return;
    }
    let served = served(&[]);
    let mut session = served.connect();
    let sample = session.result("monitor", "{\"fields\":[\"cpu_ns\"]}");
    let notes = sample["sample"]["notes"].to_string();
    assert!(notes.contains("read from /proc instead of eBPF"), "{notes}");
    assert_eq!(session.result("probes", "{}")["backend"], "procfs");
    assert!(served.log().contains("read from /proc instead of eBPF"), "{}", served.log());
}

#[test]
fn the_manager_is_notified_of_ready_reload_watchdog_and_stop() {
    let place = Folder::new();
    let path = place.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(crate::deadline::deadline())).unwrap();
    let mut program = monitor();
    program.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
    let served = Served::started("", program, "test");
    let receive = move || {
        let mut bytes = [0; 4096];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let notified = |word: &str| until(|| Some(receive()).filter(|text| text.contains(word)));
    assert!(notified("READY=1").contains("STATUS=serving on "));
    let _fed = [notified("WATCHDOG=1"), notified("WATCHDOG=1")];
    served.signal(rustix::process::Signal::HUP);
    assert!(notified("RELOADING=1").contains("MONOTONIC_USEC="));
    let _ready_again = notified("READY=1");
    served.signal(rustix::process::Signal::TERM);
    let _ends = notified("STOPPING=1");
}

/// A unit with the program that was built, so that the tool finds one.
fn analysed(test: &str, name: &str, words: &[&str]) -> Option<Output> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip(test, "needs systemd-analyze");
        return None;
    }
    let place = Folder::new();
    let path: PathBuf = place.join(name);
    write(&path, &unit(name).replace("/usr/bin/monitor", env!("CARGO_BIN_EXE_monitor")));
    let got = Command::new("systemd-analyze").args(words).arg(&path).output().unwrap();
    Some(got)
}

#[test]
fn the_units_are_sound() {
    for name in UNITS {
        let words = ["verify", "--man=no"];
        let Some(got) = analysed("the_units_are_sound", name, &words) else { return };
        let said = String::from_utf8_lossy(&got.stderr).into_owned();
        let ours: Vec<_> = said.lines().filter(|line| line.contains(name)).collect();
        assert!(got.status.success() && ours.is_empty(), "{said}");
    }
}

#[test]
fn the_units_have_a_low_exposure_score() {
    UNITS.into_iter().for_each(check_exposure);
}

#[track_caller]
fn check_exposure(name: &str) {
    let words = ["security", "--offline=true", "--no-pager"];
    let Some(got) = analysed("the_units_have_a_low_exposure_score", name, &words) else { return };
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("Overall exposure")).expect("a verdict");
    let number = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    println!("{line}");
    assert!(number <= EXPOSURE, "{text}");
}
