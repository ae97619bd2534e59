//! `job_launch`, `job_output`, `job_query`, `job_notify` and `job_log` through the socket of a
//! service: jobs that a tool starts, as which user, and what is left of them.

use super::gate::own_children;
use super::launch_native::{able, client};
use super::service_tools::{results, rows};
use super::{OPEN_MPI, has_ended, kill, listed};
use crate::deadline;
use crate::probe::mpi::OPEN_MPI as OPEN_MPI_LIBRARY;
use crate::root::privilege::{USER, able as is_root, as_user, skip};
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use monitor_model::id::Pid;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A service, and a session that starts programs with a folder for temporary files.
struct Launcher {
    session: SocketSession,
    folder: Folder,
    hosts: Vec<Pid>,
    _served: Served,
}

impl Launcher {
    fn start() -> Self {
        let served = Served::start("procfs");
        let session = served.connect();
        Self::with(served, session)
    }

    fn with(served: Served, mut session: SocketSession) -> Self {
        let folder = Folder::new();
        std::fs::set_permissions(folder.join(""), PermissionsExt::from_mode(0o777)).unwrap();
        // A daemon of Slurm may run beside this test.
        let tmpdir = folder.join("").display().to_string();
        let variables = format!("\"PATH=/usr/bin:/bin\",\"TMPDIR={tmpdir}\",\"SLURM_JOB_ID=7\"");
        let options = format!("1 [0] start_options(\"\",[{variables}],[])");
        assert_eq!(session.request(&options), "1 [0] start_options(0)");
        Self { session, folder, hosts: Vec::new(), _served: served }
    }

    fn ask(&mut self, service: &str) -> (i64, Vec<Value>) {
        results(&mut self.session, service)
    }

    /// Starts ranks without a launcher; the id of their job.
    fn launch(&mut self, arguments: &str) -> String {
        let (status, got) = self.ask(&format!("job_launch({arguments})"));
        assert_eq!(status, 0, "{got:?}");
        self.hosts.push(Pid(u32::try_from(got[1].as_u64().unwrap()).unwrap()));
        got[0].as_str().unwrap().to_owned()
    }

    /// What is written on a stream, and the ends of ranks, when there are at least `n` of them.
    fn output(&mut self, job: &str, n: usize) -> (String, Vec<Vec<Value>>) {
        let (mut from, mut text) = (0, String::new());
        loop {
            let (status, got) = self.ask(&format!("job_output(\"{job}\",{from},2.0)"));
            assert_eq!((status, &got[1]), (0, &0.into()), "{got:?}");
            from = got[0].as_u64().unwrap();
            let parts = rows(&got[2], 4);
            let of_ranks = parts.iter().filter(|it| it[1] != -1);
            text.extend(of_ranks.map(|it| format!("{} {}", it[1], it[3].as_str().unwrap())));
            let ended = rows(&got[3], 4);
            if ended.len() >= n && parts.is_empty() {
                return (text, ended);
            }
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // They keep the output of their jobs.
        self.hosts.iter().for_each(|it| kill(*it));
        self.hosts.iter().for_each(|it| deadline::until(|| has_ended(*it).then_some(())));
    }
}

#[test]
fn a_tool_starts_ranks_and_reads_what_they_write_and_how_they_end() {
    if !able("a_tool_starts_ranks_and_reads_what_they_write_and_how_they_end") {
        return;
    }
    let mut launcher = Launcher::start();
    let script = "[\"sh\",\"-c\",\"echo $A; exit $PMIX_RANK\"]";
    let job = launcher.launch(&format!("\"native\",2,\"\",[\"set:A=b\"],{script}"));
    let (text, ended) = launcher.output(&job, 2);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 b", "1 b"]);
    let row =
        |rank: i32, code: i32| vec![Value::from(&*job), rank.into(), code.into(), (-1).into()];
    assert_eq!(ended, [row(0, 0), row(1, 1)]);
    // The tool that started it has gone, and its output is still there.
    let served = Served::start("procfs");
    let session = served.connect();
    let options = launcher.folder.join("").display().to_string();
    let mut second = Launcher::with(served, session);
    let reply =
        second.session.request(&format!("2 [0] start_options(\"\",[\"TMPDIR={options}\"],[])"));
    assert_eq!(reply, "2 [0] start_options(0)");
    assert_eq!(second.output(&format!("{job}:1"), 1).0, "1 b\n");
}

#[test]
fn a_tool_starts_ranks_that_are_held_at_exec_and_reads_what_they_write() {
    if !able("a_tool_starts_ranks_that_are_held_at_exec_and_reads_what_they_write") {
        return;
    }
    let mut launcher = Launcher::start();
    let script = "[\"sh\",\"-c\",\"echo $PMIX_RANK\"]";
    let job = launcher.launch(&format!("\"native\",2,\"exec\",[],{script}"));
    let held = listed(|it| it["id"] == *job).unwrap();
    assert_eq!((&held["state"], &held["local_ranks"]), (&"stopped".into(), &2.into()), "{held}");
    let (status, got) = launcher.ask(&format!("job_output(\"{job}\",0,0.0)"));
    assert_eq!((status, rows(&got[2], 4).len()), (0, 0), "{got:?}");
    let (status, got) = launcher.ask(&format!("job_signal(\"{job}\",18)"));
    assert_eq!(status, 0, "{got:?}");
    let (text, ended) = launcher.output(&job, 2);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines, ended.len()), (vec!["0 0", "1 1"], 2));
}

#[test]
fn a_tool_starts_ranks_that_are_held_at_init_and_reads_what_they_write() {
    const TEST: &str = "a_tool_starts_ranks_that_are_held_at_init_and_reads_what_they_write";
    let built = able(TEST).then(|| OPEN_MPI_LIBRARY.build(TEST, "hosted.c"));
    let Some(program) = built.flatten() else { return };
    let mut launcher = Launcher::start();
    // The program begins when this test has its reply: none of the ranks can be held before.
    let gate = launcher.folder.join("gate");
    let (gate_path, program) = (gate.display(), program.display());
    let script = format!("until [ -e {gate_path} ]; do sleep 0.01; done; exec {program} sum");
    let job = launcher.launch(&format!("\"native\",2,\"init\",[],[\"sh\",\"-c\",{script:?}]"));
    let running = listed(|it| it["id"] == *job).unwrap();
    assert_eq!(running["state"], "running", "{running}");
    std::fs::write(&gate, "").unwrap();
    let held = deadline::until(|| listed(|it| it["id"] == *job && it["state"] == "stopped"));
    assert_eq!(held["local_ranks"], 2, "{held}");
    let (status, got) = launcher.ask(&format!("job_output(\"{job}\",0,0.0)"));
    assert_eq!((status, rows(&got[2], 4).len()), (0, 0), "{got:?}");
    assert_eq!(launcher.ask(&format!("job_signal(\"{job}\",18)")).0, 0);
    let (text, ended) = launcher.output(&job, 2);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 rank 0 of 2 has the sum 1", "1 rank 1 of 2 has the sum 1"]);
    let ends: Vec<_> = ended.iter().map(|it| (it[2].as_i64(), it[3].as_i64())).collect();
    assert_eq!(ends, [(Some(0), Some(-1)); 2]);
}

#[test]
fn a_tool_asks_and_notifies_a_job_that_waits_for_it() {
    const TEST: &str = "a_tool_asks_and_notifies_a_job_that_waits_for_it";
    let Some(program) = client(TEST, "pmix_waits.c") else { return };
    let mut launcher = Launcher::start();
    let job = launcher.launch(&format!("\"auto\",2,\"app\",[],[\"{}\"]", program.display()));
    let (status, got) = launcher.ask(&format!("job_query(\"{job}\",[\"job-size\",\"nosuch\"])"));
    let missing = ["nosuch", "the server has no value"].map(Value::from);
    assert_eq!(status, 1, "{got:?}");
    assert_eq!(got, [Value::from(vec!["job-size", "2"]), missing.to_vec().into()]);
    assert_eq!(launcher.ask(&format!("job_log(\"{job}\",\"a note\",\"stdout\")")), (0, vec![]));
    let (mut from, mut waiting) = (0, 0);
    let mut has_note = false;
    while waiting < 2 || !has_note {
        let (_, got) = launcher.ask(&format!("job_output(\"{job}\",{from},5.0)"));
        from = got[0].as_u64().unwrap();
        for part in rows(&got[2], 4) {
            let text = part[3].as_str().unwrap();
            waiting += text.matches(" waits\n").count();
            has_note |= part[1] == -1 && text == "a note\n";
        }
    }
    let notify = format!("job_notify(\"{job}\",\"debugger-release\",\"ranks\",\"go\")");
    // A rank that has written its line registers its handler a moment later.
    deadline::until(|| {
        assert_eq!(launcher.ask(&notify).0, 0);
        let (_, got) = launcher.ask(&format!("job_output(\"{job}\",{from},0.1)"));
        (rows(&got[3], 4).len() == 2).then_some(())
    });
    let (status, got) = launcher.ask("job_query(\"nosuch\",[\"job-size\"])");
    assert_eq!((status, got.len()), (300, 2), "{got:?}");
}

#[test]
fn a_tool_starts_a_launcher_with_its_ranks_held() {
    const TEST: &str = "a_tool_starts_a_launcher_with_its_ranks_held";
    if !Path::new(OPEN_MPI.starter).exists() {
        return skip(TEST, &format!("needs {}", OPEN_MPI.packages));
    }
    let mut launcher = Launcher::start();
    let script = ["-n", "2", "--tag-output", "sh", "-c", "echo ran"];
    let words = [&[OPEN_MPI.starter], OPEN_MPI.words, &script].concat();
    let words: Vec<String> = words.iter().map(|it| format!("{it:?}")).collect();
    let words = words.join(",");
    let (status, got) = launcher.ask(&format!("job_launch(\"mpirun\",0,\"exec\",[],[{words}])"));
    assert_eq!(status, 0, "{got:?}");
    let launch = got[0].as_str().unwrap().to_owned();
    assert!(launch.starts_with("launch-"), "{launch}");
    let command = Pid(u32::try_from(got[1].as_u64().unwrap()).unwrap());
    let is_below = |it: &Value| {
        let launcher = i32::try_from(it["launcher_pid"].as_i64()?).ok()?;
        let parent = procfs::process::Process::new(launcher).and_then(|it| it.stat()).ok()?.ppid;
        let stat = procfs::process::Process::new(parent).and_then(|it| it.stat()).ok()?;
        Some(stat.ppid == command.0.cast_signed())
    };
    let is_held = |it: &Value| it["state"] == "stopped" && is_below(it) == Some(true);
    let job = deadline::until(|| listed(is_held));
    // The command has held them, and not this tool.
    let host = procfs::process::Process::new(command.0.cast_signed()).unwrap().stat().unwrap().ppid;
    let kept_by = own_children(host).into_iter().chain([host]);
    launcher.hosts.extend(kept_by.map(|it| Pid(it.cast_unsigned())));
    let release = format!("job_signal(\"{}\",18)", job["id"].as_str().unwrap());
    let (status, got) = launcher.ask(&release);
    assert_eq!(status, 0, "{got:?}");
    deadline::until(|| has_ended(command).then_some(()));
    // The ends of ranks are known if they were found before.
    let (text, ended) = launcher.output(&launch, 1);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 ran", "1 ran"]);
    assert_eq!(ended[0], [Value::from(&*launch), (-1).into(), 0.into(), (-1).into()]);
}

#[test]
fn a_launcher_with_streams_of_its_own_writes_to_them() {
    let mut launcher = Launcher::start();
    let path = launcher.folder.join("out");
    let options =
        format!("1 [0] start_options(\"\",[\"PATH=/usr/bin:/bin\"],[\"\",\"{}\"])", path.display());
    assert_eq!(launcher.session.request(&options), "1 [0] start_options(0)");
    let words = "[\"sh\",\"-c\",\"echo text\"]";
    let (status, got) = launcher.ask(&format!("job_launch(\"auto\",0,\"\",[],{words})"));
    assert_eq!((status, &got[0]), (0, &"".into()), "{got:?}");
    let text = || std::fs::read_to_string(&path).ok().filter(|it| !it.is_empty());
    assert_eq!(deadline::until(text), "text\n");
}

#[test]
fn what_does_not_fit_is_refused_with_the_message_of_the_command() {
    if !able("what_does_not_fit_is_refused_with_the_message_of_the_command") {
        return;
    }
    let mut launcher = Launcher::start();
    for (arguments, status, text) in [
        ("\"native\",2,\"\",[\"set:=1\"],[\"true\"]", 105, "a directive has an empty name"),
        ("\"native\",2,\"\",[],[\"mpirun\"]", 105, "mpirun is a launcher: leave out -n"),
        ("\"native\",2,\"\",[],[\"/no/such\"]", 404, "cannot run /no/such"),
        ("\"mpirun\",2,\"\",[],[\"mpirun\"]", 105, "takes no number of ranks"),
        ("\"srun\",0,\"\",[],[\"mpirun\"]", 105, "mpirun is not srun"),
    ] {
        let reply = launcher.session.request(&format!("1 [0] job_launch({arguments})"));
        let begin = format!("1 [0] job_launch({status},");
        assert!(reply.starts_with(&begin) && reply.contains(text), "{arguments}: {reply}");
    }
}

#[test]
fn root_a_job_of_a_tool_is_of_its_user_and_no_other_user_reads_it() {
    const TEST: &str = "root_a_job_of_a_tool_is_of_its_user_and_no_other_user_reads_it";
    if !is_root(TEST) || !able(TEST) {
        return;
    }
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let served = Served::started(&config, monitor(), "procfs");
    let own = served.connect();
    let mut other = as_user(&[], || served.connect());
    let mut launcher = Launcher::with(served, own);
    let job = launcher.launch("\"native\",1,\"\",[],[\"sh\",\"-c\",\"id -u; exec sleep 1000\"]");
    let (status, got) = results(&mut other, &format!("job_output(\"{job}\",0,0.0)"));
    assert_eq!((status, got.len()), (300, 2), "{got:?}");
    let variables = format!(
        "\"PATH=/usr/bin:/bin\",\"TMPDIR={}\",\"SLURM_JOB_ID=7\"",
        launcher.folder.join("").display()
    );
    let reply = other.request(&format!("1 [0] start_options(\"\",[{variables}],[])"));
    assert_eq!(reply, "1 [0] start_options(0)");
    let script = "[\"sh\",\"-c\",\"id -u\"]";
    let (status, got) = results(&mut other, &format!("job_launch(\"auto\",1,\"\",[],{script})"));
    assert_eq!(status, 0, "{got:?}");
    launcher.hosts.push(Pid(u32::try_from(got[1].as_u64().unwrap()).unwrap()));
    let own = got[0].as_str().unwrap().to_owned();
    let text = deadline::until(|| {
        let (_, got) = results(&mut other, &format!("job_output(\"{own}\",0,1.0)"));
        Some(rows(&got[2], 4).first()?[3].clone())
    });
    assert_eq!(text, format!("{USER}\n"));
}
