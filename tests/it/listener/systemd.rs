//! The unit that is shipped, under a systemd of its own: it becomes ready, reads again, comes back
//! when it was killed, and ends clean. `tests/fixture/systemd.sh` makes the world for it.

use crate::deadline::until;
use crate::root::conservation::Cgroup;
use crate::root::privilege::{granted, skip};
use crate::served::Folder;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A systemd with this one unit; both end with the test.
struct SystemdManager {
    /// The process outside of the namespace that waits for it.
    child: Child,
    cgroup: Cgroup,
    _folder: Folder,
}

impl SystemdManager {
    fn start(cgroup: Cgroup) -> Self {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");
        let folder = Folder::new();
        let namespaces = ["--fork", "--kill-child", "--pid", "--mount", "--ipc", "--uts"];
        let mut command = Command::new("sh");
        // Its own cgroup is the root of what it sees and makes.
        command.args(["-c", "echo $$ > \"$0/cgroup.procs\"; exec \"$@\""]).arg(cgroup.path());
        command.arg("unshare").args(namespaces).args(["--cgroup", "sh"]);
        command.arg(format!("{tests}/fixture/systemd.sh")).arg(folder.join(""));
        command.arg(env!("CARGO_BIN_EXE_monitor"));
        command.arg(format!("{tests}/packaging/monitor.service"));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { child, cgroup, _folder: folder }
    }

    /// The manager itself, as it is seen here.
    fn pid(&mut self) -> Option<String> {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "no systemd: {ended:?}");
        let outside = self.child.id();
        let children = format!("/proc/{outside}/task/{outside}/children");
        Some(std::fs::read_to_string(children).ok()?.split_whitespace().next()?.to_owned())
    }

    /// Runs a command in its world.
    fn run(&mut self, words: &str) -> Output {
        let pid = until(|| self.pid());
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-m", "-p", "-i", "-u", "-C", "--"]);
        command.args(words.split(' ')).env_remove("MONITOR_SOCKET").output().unwrap()
    }

    /// A property of the unit.
    fn property(&mut self, name: &str) -> String {
        let output = self.run(&format!("systemctl show monitor --value -p {name}"));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until a property is so.
    #[track_caller]
    fn becomes(&mut self, name: &str, want: &str) {
        until(|| (self.property(name) == want).then_some(()));
    }
}

impl Drop for SystemdManager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The processes that it started end with its namespace; then their cgroups can be removed.
        until(|| empty(self.cgroup.path()).then_some(()));
    }
}

/// Removes what is below a cgroup; whether nothing is left.
fn empty(cgroup: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(cgroup) else { return true };
    let folders = entries.flatten().map(|it| it.path()).filter(|it| it.is_dir());
    // Each is tried, though one before it could not go.
    let left = folders.filter(|it| !empty(it) || std::fs::remove_dir(it).is_err());
    left.count() == 0
}

#[test]
fn root_the_unit_serves_reloads_comes_back_and_ends_under_systemd() {
    let name = "root_the_unit_serves_reloads_comes_back_and_ends_under_systemd";
    if !granted(name) {
        return;
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return skip(name, "needs systemd");
    }
    let Some(cgroup) = Cgroup::new() else {
        return skip(name, "no cgroup of version 2 can be made");
    };
    let mut manager = SystemdManager::start(cgroup);
    // Ready is what it says itself (sd_notify(3)).
    manager.becomes("ActiveState", "active");
    manager.becomes("StatusText", "serving on /run/monitor/monitor.sock");
    let doctor = manager.run("monitor doctor --socket /run/monitor/monitor.sock");
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("uid 61237") && said.contains("backend ebpf, by the daemon"), "{said}");
    assert!(said.contains("CAP_PERFMON CAP_BPF\n"), "{said}");

    assert!(manager.run("systemctl reload monitor").status.success());
    assert_eq!(manager.property("ActiveState"), "active");

    let first = manager.property("MainPID");
    assert!(manager.run(&format!("kill -9 {first}")).status.success());
    manager.becomes("NRestarts", "1");
    manager.becomes("ActiveState", "active");
    assert_ne!(manager.property("MainPID"), first);

    assert!(manager.run("systemctl stop monitor").status.success());
    assert_eq!(manager.property("ActiveState"), "inactive");
    assert_eq!(
        (manager.property("Result"), manager.property("ExecMainStatus")),
        ("success".into(), "0".into())
    );
    assert!(!manager.run("test -e /run/monitor/monitor.sock").status.success());
}
