//! What a client of the host of `job launch -n` gets by `PMIx_Process_monitor`: the statistics of
//! the service of the node, and alerts about heartbeats.

use super::Noticed;
use super::launch_native::{client, native};
use crate::deadline;
use crate::served::Served;
use std::process::Stdio;

#[test]
fn a_client_gets_the_statistics_of_the_service_and_those_of_the_host_without_it() {
    let test = "a_client_gets_the_statistics_of_the_service_and_those_of_the_host_without_it";
    let Some(program) = client(test, "pmix_usage.c") else { return };
    let mut served = Served::start("procfs");
    let (mut command, folder) = native(&["-n", "2"], &[program.to_str().unwrap()]);
    let gate = folder.join("gate");
    command.arg(&gate).env("MONITOR_SOCKET", served.socket()).env_remove("MONITOR_BACKEND");
    let mut job = Noticed::run(command.stdout(Stdio::piped()));
    let samples = |served: &Served| served.status()["samples"].as_u64().unwrap();
    // The reply, and an event.
    deadline::until(|| (samples(&served) >= 2).then_some(()));
    served.kill();
    let notice = job.notice();
    let want = ": the host of the job reads resource usage itself\n";
    assert!(notice.starts_with("monitor: no statistics of the service: "), "{notice}");
    assert!(notice.ends_with(want), "{notice}");
    served.restart();
    deadline::until(|| (samples(&served) >= 2).then_some(()));
    // The second end is not said.
    served.kill();
    std::fs::write(gate, "").unwrap();
    let stdout = job.command.0.stdout.take().unwrap();
    let text = std::io::read_to_string(stdout).unwrap();
    assert_eq!(job.end(), (String::new(), Some(0)), "{text}");
    assert!(text.contains("monitor 0\n") && text.contains("two events\n"), "{text}");
    let values = |key: &str| text.lines().filter(|it| it.starts_with(key)).count();
    assert_eq!((values("pmix.proc.rss "), values("pmix.proc.time ")), (2, 2), "{text}");
}

#[test]
fn a_client_without_heartbeats_is_reported_when_enough_windows_were_empty() {
    let test = "a_client_without_heartbeats_is_reported_when_enough_windows_were_empty";
    let Some(program) = client(test, "pmix_heartbeats.c") else { return };
    // That of the namespace, and PMIX_RANGE_GLOBAL, which the host itself is in.
    for range in [&[][..], &["5"]] {
        let program = [&[program.to_str().unwrap()], range].concat();
        let (mut command, _folder) = native(&["-n", "2"], &program);
        let got = command.output().unwrap();
        let text = String::from_utf8(got.stdout).unwrap();
        assert_eq!((got.status.code(), String::from_utf8_lossy(&got.stderr)), (Some(0), "".into()));
        let count = |line: &str| text.lines().filter(|it| *it == line).count();
        // PMIX_ERR_BAD_PARAM, PMIX_ERR_EXISTS, PMIX_ERR_NOT_FOUND.
        for line in ["no window -27", "watch 0", "second -11", "other id -46", "cancel 0"] {
            assert_eq!(count(line), 1, "{line}: {text}");
        }
        for line in ["while it beats 0", "after two windows yes", "in all 2"] {
            assert_eq!(count(line), 1, "{line}: {text}");
        }
        assert_eq!(count("rank 0: alert -109 about rank 0 from the host"), 2, "{text}");
        assert_eq!(count("rank 1: alert -109 about rank 0 from the rank"), 2, "{text}");
    }
}
