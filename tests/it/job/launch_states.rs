//! The states of jobs that commands of this program launch, as the service of the node reports
//! them: from the launcher, by the place where ranks are held, to the end.

use super::events::Printing;
use super::launch::launch;
use super::launch_native::{able, client, native};
use super::pmix_launch::Prte;
use super::runtime::CaseRuntime;
use super::slurm_node::SlurmNode;
use super::{Noticed, OPEN_MPI, printed};
use crate::deadline::until;
use crate::probe::mpi;
use crate::root::privilege::{able as able_to_change_user, as_user, granted};
use crate::served::{Folder, Served, monitor};
use std::process::Command;

const FOLLOWING: &str = "[jobs]\nfollow = true\n";

/// A service, and the transitions that it reports.
struct Watched {
    served: Served,
    printed: Printing,
}

impl Watched {
    fn start() -> Self {
        let served = Served::started(FOLLOWING, monitor(), "ebpf");
        let printed = Printing::run(&served, "job events --class job");
        let it = Self { served, printed };
        // Executions are reported a while after the service answers.
        until(|| {
            let _version = Command::new(OPEN_MPI.starter).arg("--version").output().unwrap();
            it.has_created("openmpi4").then_some(())
        });
        it
    }

    fn run(&self, mut command: Command) -> Noticed {
        Noticed::run(command.env("MONITOR_SOCKET", self.served.socket()))
    }

    /// The next line of a job or launcher of these, without the time, that is not about a debugger:
    /// the service may read while the launch still traces the ranks.
    #[track_caller]
    fn next(&mut self, of: &[&str]) -> String {
        loop {
            let line = self.printed.line();
            let (_, line) = line.trim_end().split_once(' ').expect("a transition");
            let what = of.iter().find_map(|it| line.strip_prefix(it)?.strip_prefix(' '));
            if what.is_some_and(|it| !it.starts_with("debugger-")) {
                return line.to_owned();
            }
        }
    }

    /// The transitions of a job until it is held at a place; its id.
    #[track_caller]
    fn check_held(&mut self, launched: &mut Noticed, place: &str) -> String {
        let mut notice = launched.notice();
        while !notice.starts_with("monitor: job ") {
            assert_ne!(notice, "");
            notice = launched.notice();
        }
        let id = notice["monitor: job ".len()..].split([':', ' ']).next().unwrap().to_owned();
        let line = self.next(&[&id]);
        assert!(line.starts_with(&format!("{id} launching: ")), "{line}");
        let mut line = self.next(&[&id]);
        // The program runs to a place in it.
        if place != "exec" && line == format!("{id} running: 2 ranks") {
            line = self.next(&[&id]);
        }
        assert_eq!(line, format!("{id} stopped: held at {place}"));
        assert_eq!(self.next(&[&id]), format!("{id} ready-for-debug: held at {place}"));
        id
    }

    /// The transitions of a job of two ranks from its release on.
    #[track_caller]
    fn check_released(&mut self, mut launched: Noticed, id: &str, ends: impl FnOnce()) {
        assert_eq!(self.next(&[id]), format!("{id} running: 2 ranks"));
        ends();
        let line = self.next(&[id]);
        assert!(line.starts_with(&format!("{id} ended: status 0, after ")), "{line}");
        // Hydra fails if its input ends at the same time as the ranks.
        let _open = launched.command.0.stdin.take();
        assert_eq!(launched.end().1, Some(0));
    }

    /// Whether a launcher of this runtime was seen before its ranks.
    fn has_created(&self, runtime: &str) -> bool {
        let history = self.served.connect().request("1 [0] job_history(\"launcher-\",0)");
        history.contains(&format!(",\"{runtime}\",\"created\","))
    }
}

#[test]
fn root_ranks_that_a_launch_holds_are_reported_with_the_place() {
    const TEST: &str = "root_ranks_that_a_launch_holds_are_reported_with_the_place";
    if !granted(TEST) || !able(TEST) {
        return;
    }
    let mut watched = Watched::start();
    let Some(program) = mpi::OPEN_MPI.build(TEST, "case.c") else { return };
    let folder = Folder::new();
    let gates = ["a", "b", "c"].map(|name| folder.join(name).display().to_string());
    for (place, gate) in [("exec", &gates[0]), ("init", &gates[1])] {
        let words = ["-n", "2", program.to_str().unwrap(), gate, "sum"];
        let words = [&[OPEN_MPI.starter], OPEN_MPI.words, &words].concat();
        let mut launched = watched.run(launch(&["--stop", place], &words));
        let id = watched.check_held(&mut launched, place);
        let _text = printed(&["job", "release", &id]);
        watched.check_released(launched, &id, || std::fs::write(gate, "").unwrap());
    }
    let (command, _folder) =
        native(&["-n", "2", "--stop", "init"], &[program.to_str().unwrap(), &gates[2], "sum"]);
    let mut launched = watched.run(command);
    let id = watched.check_held(&mut launched, "init");
    assert!(watched.has_created("native"));
    let _text = printed(&["job", "release", &id]);
    watched.check_released(launched, &id, || std::fs::write(&gates[2], "").unwrap());
}

#[test]
fn root_ranks_that_wait_where_their_program_says_are_reported() {
    const TEST: &str = "root_ranks_that_wait_where_their_program_says_are_reported";
    if !granted(TEST) {
        return;
    }
    let Some(program) = client(TEST, "pmix_waits.c") else { return };
    let mut watched = Watched::start();
    let (command, folder) = native(&["-n", "2", "--stop", "app"], &[program.to_str().unwrap()]);
    let mut launched = watched.run(command);
    let id = watched.check_held(&mut launched, "app");
    let mut notify = monitor();
    notify.env("TMPDIR", folder.join("")).args(["job", "notify", &id, "debugger-release"]);
    assert!(notify.output().unwrap().status.success());
    // They may have ended at the next reading.
    let mut line = watched.next(&[&id]);
    if line == format!("{id} running: 2 ranks") {
        line = watched.next(&[&id]);
    }
    assert!(line.starts_with(&format!("{id} ended: status 0, after ")), "{line}");
    assert_eq!(launched.end().1, Some(0));
}

#[test]
fn root_ranks_that_a_pmix_server_holds_are_reported() {
    const TEST: &str = "root_ranks_that_a_pmix_server_holds_are_reported";
    if !granted(TEST) {
        return;
    }
    let (Some(prte), Some(program)) =
        (Prte::start(TEST), CaseRuntime::named("openmpi5").built(TEST))
    else {
        return;
    };
    let mut watched = Watched::start();
    let folder = Folder::new();
    for (place, release) in [("exec", "release"), ("init", "notify")] {
        let gate = folder.join(place).display().to_string();
        let mut command =
            prte.launch(&["--stop", place], &[program.to_str().unwrap(), &gate, "sum"]);
        CaseRuntime::named("openmpi5").set_environment(&mut command);
        let mut launched = watched.run(command);
        let id = watched.check_held(&mut launched, place);
        let mut words = vec!["job", release, &id];
        words.extend((release == "notify").then_some("debugger-release"));
        let mut command = watched.served.command(&words.join(" "));
        assert!(prte.set_environment(&mut command).output().unwrap().status.success());
        watched.check_released(launched, &id, || std::fs::write(&gate, "").unwrap());
    }
}

#[test]
fn root_a_step_of_slurm_is_reported_beside_its_srun() {
    const TEST: &str = "root_a_step_of_slurm_is_reported_beside_its_srun";
    if !granted(TEST) {
        return;
    }
    let Some(node) = SlurmNode::start(TEST) else { return };
    let mut watched = Watched::start();
    let folder = Folder::new();
    let gate = folder.join("gate").display().to_string();
    let script = format!("until [ -e {gate} ]; do sleep 0.1; done");
    let mut command = launch(&["--stop", "exec"], &["srun", "-n", "2", "sh", "-c", &script]);
    node.set_environment(&mut command);
    let mut launched = watched.run(command);
    let id = watched.check_held(&mut launched, "exec");
    assert!(watched.has_created("slurm"));
    let _text = printed(&["job", "release", &id]);
    watched.check_released(launched, &id, || std::fs::write(&gate, "").unwrap());
}

#[test]
fn root_a_report_counts_until_its_tool_disconnects_and_is_of_its_user() {
    const TEST: &str = "root_a_report_counts_until_its_tool_disconnects_and_is_of_its_user";
    if !able_to_change_user(TEST) {
        return;
    }
    let mut watched = Watched::start();
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let id = id.as_str();
    assert!(watched.next(&[id]).starts_with(&format!("{id} launching: ")));
    assert_eq!(watched.next(&[id]), format!("{id} running: 2 ranks"));
    let report = format!("1 [0] job_report_hold(\"{id}\",\"app\")");
    let refused = as_user(&[], || watched.served.connect().request(&report));
    assert!(refused.starts_with("1 [0] job_report_hold(300,"), "{refused}");
    let mut tool = watched.served.connect();
    assert_eq!(tool.request(&report), "1 [0] job_report_hold(0)");
    assert_eq!(watched.next(&[id]), format!("{id} stopped: held at app"));
    assert_eq!(watched.next(&[id]), format!("{id} ready-for-debug: held at app"));
    drop(tool);
    assert_eq!(watched.next(&[id]), format!("{id} running: 2 ranks"));
}
