//! `job rendezvous`: tools that name no server get the jobs of their user, and nothing else.

use super::launch_native::{client, native};
use super::{Noticed, listed, printed, ranks_of};
use crate::deadline;
use crate::listener::unit::capabilities_of;
use crate::root::privilege::{self, USER};
use crate::served::Folder;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// A user that has no job.
const OTHER: u32 = USER - 1;

/// The server of the node, in a folder of its own.
struct Rendezvous {
    command: Noticed,
    folder: Folder,
}

impl Rendezvous {
    fn start() -> Self {
        let folder = Folder::new();
        std::fs::set_permissions(folder.join(""), Permissions::from_mode(0o755)).unwrap();
        // With the capabilities of its unit, and no others.
        let given = capabilities_of("monitor-rendezvous.service", "CapabilityBoundingSet");
        let plus: String = given.iter().map(|it| format!(",+{it}")).collect();
        let mut command = Command::new("setpriv");
        command.arg("--no-new-privs").arg(format!("--bounding-set=-all{plus}"));
        command.arg(env!("CARGO_BIN_EXE_monitor"));
        command.args(["job", "rendezvous", "--folder"]).arg(folder.join(""));
        command.arg("--hosts").arg(folder.join("hosts"));
        let mut command = Noticed::run(&mut command);
        let notice = command.notice();
        assert!(notice.starts_with("monitor: the PMIx server of this node is "), "{notice}");
        Self { command, folder }
    }

    /// A job of a user, by its namespace, when the server knows it.
    fn job(&self, uid: u32) -> (Noticed, Folder, String) {
        let (mut command, folder) = native(&["-n", "1"], &["sleep", "1000"]);
        std::fs::set_permissions(folder.join(""), Permissions::from_mode(0o1777)).unwrap();
        command.env("MONITOR_RENDEZVOUS", self.folder.join("hosts")).uid(uid).gid(uid);
        let job = Noticed::run(&mut command);
        let id = format!("monitor-{}", job.command.pid().0);
        let _listed = deadline::until(|| listed(|it| it["id"] == *id && it["local_ranks"] == 1));
        assert_eq!(ranks_of(&id).len(), 1);
        (job, folder, id)
    }

    /// What a tool of a user prints, which asks about a namespace.
    fn found(&self, program: &Path, uid: u32, nspace: &str) -> String {
        let mut command = Command::new(program);
        command.env("PMIX_SYSTEM_TMPDIR", self.folder.join("")).arg(nspace);
        command.env("TMPDIR", "/tmp").current_dir("/").uid(uid).gid(uid);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

#[test]
fn root_a_tool_without_a_server_gets_the_jobs_of_its_user_and_nothing_else() {
    let test = "root_a_tool_without_a_server_gets_the_jobs_of_its_user_and_nothing_else";
    if !privilege::able(test) {
        return;
    }
    let Some(program) = client(test, "pmix_finds.c") else { return };
    let server = Rendezvous::start();
    let (_first, _folder, of_root) = server.job(0);
    let (_second, _folder, of_user) = server.job(USER);
    let names = |uid| {
        let text = server.found(&program, uid, &of_root);
        let line = text.lines().find_map(|it| it.strip_prefix("pmix.qry.ns ").map(str::to_owned));
        let mut names: Vec<String> = line?.split(',').map(str::to_owned).collect();
        names.sort();
        Some((names, text))
    };
    // The host of a job registers when it has begun.
    let mut all = vec![of_root.clone(), of_user.clone()];
    all.sort();
    let (_, text) = deadline::until(|| names(0).filter(|it| it.0 == all));
    assert!(text.contains("pmix.srvr.uri monitor-pmix.0;tcp4://127.0.0.1:"), "{text}");
    let (of_its, text) = names(USER).unwrap();
    assert_eq!(of_its, [of_user]);
    // PMIX_ERR_NOT_FOUND for a job of root, PMIX_ERR_NOT_SUPPORTED for all that is no query.
    for line in ["query pmix.srvr.uri -46", "query pmix.qry.ptable -46"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    for line in ["spawn -47", "publish -47", "monitor -47", "job control -47"] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert_eq!(names(OTHER).unwrap().0, [""]);
    // No process that talks to tools is of root.
    let parts = procfs::process::all_processes()
        .unwrap()
        .flatten()
        .filter(|it| it.cmdline().is_ok_and(|words| words.iter().any(|it| it == "--part")));
    let users: Vec<u32> = parts.map(|it| it.uid().unwrap()).collect();
    assert!(users.len() >= 4 && !users.contains(&0), "{users:?}");
    let pid = Pid::from_raw(server.command.command.pid().0.cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let Rendezvous { command, folder } = server;
    assert_eq!(command.end().0, "");
    assert_eq!(std::fs::read_dir(folder.join("")).unwrap().count(), 0);
    all.iter().for_each(|id| drop(printed(&["job", "end", id])));
}
