//! What the node says of the processes of sessions, and what an administrator may do: `mon/` of a
//! session, columns of `procs`; `ctl`, `env` and `state` of the node.

use super::files::{attach, own, read, value};
use super::files_session::{Files, refused, script, session, write};
use crate::deadline::until;
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Served, monitor};

/// A service with real processes, where the user of the tests may execute.
pub fn served() -> Served {
    let uid = rustix::process::geteuid().as_raw();
    Served::started(&format!("[files]\nexecute = [{uid}]\n"), monitor(), "procfs")
}

/// Empties a file, and writes it.
fn set(client: &mut Files, path: &str, text: &[u8]) {
    client.open_to_write(path).unwrap();
    client.write_on(text).unwrap();
    client.close().unwrap();
}

#[test]
fn the_processes_of_a_session_are_measured_and_named_by_its_number() {
    let served = served();
    let mut it = own(&served);
    let at = session(&mut it);
    write(
        &mut it,
        &format!("{at}/argv"),
        "sh -c '(setsid sleep 98757 &); echo $$; exec sleep 98757'",
    );
    write(&mut it, &format!("{at}/ctl"), "id 12/3\nexec /bin/sh\n");
    let names: Vec<String> =
        it.list(&format!("{at}/mon")).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names.join(" "), "ctl desc event log proc pull push");
    let desc = read(&mut it, &format!("{at}/mon/desc"));
    assert!(
        desc.starts_with("(desc (cat proc (var pid ") && desc.contains("(var cpu_ns counter ns)")
    );
    let main = until(|| read(&mut it, &format!("{at}/ctl")).parse::<u32>().ok());
    // Both are there, also the one that has left the session of the kernel.
    let sample = until(|| {
        let sample = read(&mut it, &format!("{at}/mon/pull"));
        (sample.matches("(comm sleep)").count() == 2).then_some(sample)
    });
    assert!(sample.starts_with("(sample (node ") && sample.contains(&format!(" (session {at}) ")));
    assert!(sample.contains(&format!("({main} (")), "{sample}");
    assert_eq!(sample.lines().count(), 1);
    let procs = read(&mut it, "procs");
    let columns = ["xcpusid", "xcpujid"].map(|name| value(&procs, main, name).unwrap());
    assert_eq!(columns, [at.clone(), "12".to_owned()]);
    let own = value(&procs, std::process::id(), "xcpusid").unwrap();
    assert_eq!(own, "''");
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    assert!(it.read_while(&format!("{at}/mon/pull"), |_| true).is_err());
}

#[test]
fn an_administrator_sets_state_and_environment_and_drains_the_node() {
    let served = served();
    let mut it = own(&served);
    set(&mut it, "state", b"down for repair\n");
    assert_eq!(read(&mut it, "state"), "down for repair\n");
    set(&mut it, "state", b"up");
    assert_eq!(read(&mut it, "state"), "up");
    set(&mut it, "env", b"PATH=/bin GREETING='good day'\n");
    let at = script(&mut it, "echo $GREETING; exec sleep 98756");
    assert_eq!(read(&mut it, &format!("{at}/env")), "PATH=/bin GREETING='good day'\n");
    until(|| (read(&mut it, "ctl") == "(running 1 (sessions 1) (draining no))\n").then_some(()));
    set(&mut it, "env", b"no assignment");
    let malformed = it.read_while("clone", |_| true);
    assert!(malformed.unwrap_err().to_string().contains("Invalid argument"));
    assert!(read(&mut it, "err").starts_with("env: \"no\" is no assignment"));
    set(&mut it, "env", b"");
    write(&mut it, "ctl", "drain\n");
    assert!(read(&mut it, "ctl").ends_with("(draining yes))\n"));
    assert!(it.read_while("clone", |_| true).is_err());
    assert!(read(&mut it, "err").contains("takes this node out of use"));
    write(&mut it, "ctl", "undrain\n");
    let _opened = session(&mut it);
    for line in ["odd\n", "kill 9\n", "kill 99 1\n", "kill 9 0\n"] {
        assert_eq!(refused(&mut it, "ctl", line), "Invalid argument", "{line:?}");
    }
    assert_eq!(refused(&mut it, "state", &"x".repeat(5000)), "File too large");
    let pid = read(&mut it, &format!("{at}/ctl"));
    write(&mut it, "ctl", &format!("kill TERM {pid}\n"));
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("143 signal 15 "));
}

#[test]
fn root_other_users_change_nothing_of_the_node_and_see_no_session_of_others() {
    const TEST: &str = "root_other_users_change_nothing_of_the_node_and_see_no_session_of_others";
    if !able(TEST) {
        return;
    }
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "exec sleep 98755");
    let main = until(|| read(&mut it, &format!("{at}/ctl")).parse::<u32>().ok());
    as_user(&[], || {
        let mut it = attach(&served, "");
        for path in ["env", "state", "ctl"] {
            assert_eq!(refused(&mut it, path, "drain\n"), "Permission denied", "{path}");
            assert!(it.open_to_write(path).is_err());
        }
        // It counts sessions of all users, and names none.
        assert_eq!(read(&mut it, "ctl"), "(running 1 (sessions 1) (draining no))\n");
        assert!(it.read_while(&format!("{at}/mon/pull"), |_| true).is_err());
        assert!(it.stat(&format!("{at}/mon")).is_err());
        let procs = read(&mut it, "procs");
        let shown = value(&procs, main, "xcpusid");
        assert!(shown.is_none_or(|it| it == "''"), "{USER} sees the session of root");
    });
    let mut none = attach(&served, "none");
    assert_eq!(refused(&mut none, "state", "x"), "Permission denied");
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
}
