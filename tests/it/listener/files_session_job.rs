//! A session over 9P is a job of one rank: commands for jobs list it, read its output, and end it.

use super::files::{attach, own, path, read};
use super::files_session::{Files, script, served, write};
use crate::deadline::until;
use crate::root::privilege::{USER, able, as_uid, as_user};
use crate::served::{Served, monitor};
use monitor_control::host_protocol::socket_path;
use monitor_control::job_folder::path_of;
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Output;

/// What a command for jobs does.
fn job(words: &str) -> Output {
    monitor().arg("job").args(words.split(' ')).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it prints when it succeeds: standard output and error.
#[track_caller]
fn printed(words: &str) -> (String, String) {
    let got = job(words);
    assert!(got.status.success(), "{words}: {}", text(&got.stderr));
    (text(&got.stdout), text(&got.stderr))
}

/// What a command prints, which may be refused.
fn printed_or_refused(words: &str) -> String {
    text(&job(words).stdout)
}

/// Whether nothing has come on a connection, which is open.
fn is_silent(stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let got = (&*stream).read(&mut [0]);
    got.is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock)
}

/// The row of a job in `job list`.
fn row(id: &str) -> Option<Value> {
    let list: Value = serde_json::from_str(&printed("list --format json").0).unwrap();
    list["jobs"].as_array()?.iter().find(|it| it["id"] == *id).cloned()
}

/// The id of the job of a session.
fn id(client: &mut Files, at: &str) -> String {
    let id = read(client, &format!("{at}/job"));
    assert!(id.starts_with(&format!("session-{at}-")), "{id}");
    id
}

/// The output of a session so far, when it has this text.
fn wait_for(client: &mut Files, at: &str, want: &str) {
    let mut seen = String::new();
    let read = client.read_while(&format!("{at}/stdout"), |bytes| {
        seen.push_str(std::str::from_utf8(bytes).unwrap());
        !seen.contains(want)
    });
    read.unwrap();
    assert!(seen.contains(want), "{seen}");
}

#[test]
fn a_session_is_a_job_whose_output_is_that_of_its_files() {
    let served = served();
    let mut it = own(&served);
    let at = script(
        &mut it,
        "trap 'echo got USR1' USR1; echo one; echo two >&2; while :; do sleep 0.05; done",
    );
    wait_for(&mut it, &at, "one\n");
    let id = id(&mut it, &at);
    let found = row(&id).unwrap();
    let got = ["runtime", "state", "local_ranks", "size"].map(|name| found[name].clone());
    assert_eq!(got, [Value::from("session"), "running".into(), 1.into(), 1.into()]);
    let show: Value =
        serde_json::from_str(&printed(&format!("show {id} --format json")).0).unwrap();
    let pid = read(&mut it, &format!("{at}/ctl")).parse::<u64>().unwrap();
    assert_eq!(show["job"]["ranks"][0]["pid"], pid);
    let (out, errors) = until(|| {
        let got = printed(&format!("output {id} --no-follow"));
        got.1.contains("two").then_some(got)
    });
    assert_eq!((out.as_str(), errors.as_str()), ("one\n", "two\n"));
    let _sent = printed(&format!("signal {id} USR1"));
    wait_for(&mut it, &at, "got USR1\n");
    let _logged = printed(&format!("log {id} noted --to stdout"));
    wait_for(&mut it, &at, "noted\n");
    assert_eq!(printed(&format!("output {pid} --no-follow --from 8")).0, "got USR1\nnoted\n");
    let query = job(&format!("query {id} job-size"));
    assert!(text(&query.stderr).contains("has no PMIx server"), "{}", text(&query.stderr));
}

#[test]
fn a_job_that_is_ended_leaves_the_session_with_its_output_and_its_end() {
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "echo one; sleep 98761 & sleep 98761");
    wait_for(&mut it, &at, "one\n");
    let id = id(&mut it, &at);
    let follows = std::thread::spawn({
        let words = format!("output {id} --tag");
        move || printed(&words)
    });
    let (ended, _) = printed(&format!("end {id}"));
    assert!(ended.starts_with(&format!("job {id} has ended")), "{ended}");
    assert!(row(&id).is_none());
    assert!(read(&mut it, &format!("{at}/wait")).starts_with("143 signal 15 "));
    let want = ("[0] one\n".to_owned(), "monitor: rank 0 ended by signal 15\n".to_owned());
    assert_eq!(follows.join().unwrap(), want);
    // By its whole id, while the session is there.
    assert_eq!(printed(&format!("output {id} --tag")), want);
    assert_eq!(read(&mut it, &format!("{at}/stdout")), "one\n");
    let refused = job(&format!("log {id} late"));
    assert!(text(&refused.stderr).contains("its program has ended"));
    let folder = path_of(&std::env::temp_dir(), &id);
    assert!(folder.is_dir());
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
    until(|| (!folder.exists()).then_some(()));
    assert_eq!(job(&format!("output {id}")).status.code(), Some(6));
}

#[test]
fn ranks_of_a_launcher_in_a_session_are_of_their_own_job() {
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "PMIX_NAMESPACE=inner-$$ PMIX_RANK=0 sleep 98760 & echo $!; wait");
    let id = id(&mut it, &at);
    let inner = until(|| {
        let list: Value = serde_json::from_str(&printed("list --format json").0).unwrap();
        let jobs = list["jobs"].as_array().unwrap().clone();
        jobs.iter().any(|it| it["id"] == *id).then_some(())?;
        jobs.into_iter().find(|it| it["id"].as_str().unwrap().starts_with("inner-"))
    });
    assert_eq!(inner["local_ranks"], 1);
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
}

#[test]
fn what_is_no_request_of_a_command_is_refused_and_holds_nothing_up() {
    let served = served();
    let mut it = own(&served);
    let at = script(&mut it, "echo one; exec sleep 98759");
    wait_for(&mut it, &at, "one\n");
    let id = id(&mut it, &at);
    let folder = File::open(path_of(&std::env::temp_dir(), &id)).unwrap();
    let connect = || UnixStream::connect(socket_path(&folder)).unwrap();
    let mut bad = connect();
    bad.write_all(b"{\"odd\": 1}\n").unwrap();
    let mut answer = String::new();
    bad.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"refused\":\"no request"), "{answer}");
    let mut long = connect();
    // It is answered before all is written.
    let _refused = long.write_all(&vec![b'x'; 1 << 20]);
    let _refused = long.read_to_end(&mut Vec::new());
    // The two before may not have been left yet.
    let silent: Vec<UnixStream> = until(|| {
        let open: Vec<_> = (0..4).map(|_| connect()).collect();
        let mut fifth = connect();
        let mut answer = String::new();
        fifth.read_to_string(&mut answer).unwrap();
        let is_refused = answer.starts_with("{\"refused\":\"too many commands");
        assert!(is_refused, "{answer}");
        open.iter().all(is_silent).then_some(open)
    });
    drop(silent);
    let words = format!("output {id} --no-follow");
    until(|| (printed_or_refused(&words) == "one\n").then_some(()));
    assert!(read(&mut it, &format!("{at}/ctl")).parse::<u32>().is_ok());
    write(&mut it, &format!("{at}/ctl"), "wipe\n");
}

#[test]
fn root_a_session_of_another_user_is_a_job_of_that_user_and_is_closed_to_others() {
    const TEST: &str =
        "root_a_session_of_another_user_is_a_job_of_that_user_and_is_closed_to_others";
    if !able(TEST) {
        return;
    }
    let served = Served::started("[files]\nexecute = [\"@4343\"]\n", monitor(), "procfs");
    let (at, id) = as_user(&[4343], || {
        let mut it = attach(&served, "");
        let at = script(&mut it, "echo one; exec sleep 98758");
        wait_for(&mut it, &at, "one\n");
        write(&mut it, &format!("{at}/ctl"), "type persistent\n");
        let id = id(&mut it, &at);
        assert_eq!(printed(&format!("output {id} --no-follow")).0, "one\n");
        (at, id)
    });
    assert_eq!(row(&id).unwrap()["uid"], USER);
    // Root reads what the service hosts, which is a process of root.
    assert_eq!(printed(&format!("output {id} --no-follow")).0, "one\n");
    // The service asks for the user also where the folder was opened to others.
    let folder = path_of(&std::env::temp_dir(), &id);
    let socket = folder.join("host");
    let enter = || as_uid(USER + 1, &[], || UnixStream::connect(&socket));
    assert!(enter().is_err());
    for opened in [&folder, &socket] {
        std::fs::set_permissions(opened, Permissions::from_mode(0o777)).unwrap();
    }
    let mut stream = enter().unwrap();
    let _closed =
        stream.write_all(b"{\"output\":{\"from\":0,\"most\":9,\"wait\":{\"first\":0}}}\n");
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", text(&answer));
    let (ended, _) = printed(&format!("end {id}"));
    assert!(ended.contains("has ended"), "{ended}");
    as_user(&[], || {
        let mut it = attach(&served, "");
        assert!(read(&mut it, &format!("{at}/wait")).starts_with("143 signal 15 "));
        write(&mut it, &format!("{at}/ctl"), "wipe\n");
    });
    assert!(UnixStream::connect(path(&served)).is_ok());
}
