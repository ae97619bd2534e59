//! Every exit code of the program, and a command that ends with it.
//!
//! Other tests cover `run` when the service dies (`client/command.rs`), a closed pipe and a full
//! disk (`cli.rs`).

use super::{as_other_user, check, program};
use crate::served::{Folder, Served};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

fn code(mut command: Command) -> i32 {
    let got = command.output().unwrap();
    got.status.code().unwrap_or_else(|| panic!("{command:?}: {got:?}"))
}

/// The exit code of a command without a service.
fn alone(words: &str) -> i32 {
    code(program(&words.split(' ').collect::<Vec<_>>()))
}

/// The exit code of a command that gets a signal after its first line.
fn signalled(words: &str, signal: Signal) -> i32 {
    let mut command = program(&words.split(' ').collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _first = lines.next().unwrap().unwrap();
    kill_process(Pid::from_child(&child), signal).unwrap();
    // An empty pipe lets the command reach the point where it handles the signal.
    let _rest = lines.count();
    child.wait().unwrap().code().unwrap()
}

#[test]
fn every_outcome_has_its_exit_code() {
    let (own, folder) = (std::process::id(), Folder::new());
    let ways = [
        ("all was delivered", alone("sample --backend test")),
        ("SIGTERM ends a watch", signalled(WATCH, Signal::TERM)),
        ("every capability is served", alone("doctor --backend test")),
        ("it failed: no such recording", alone("report /no/such/file")),
        ("no such command", alone("smaple")),
        ("no such option", alone("sample --nothing")),
        ("no such field", alone("sample --backend test --fields nothing")),
        ("no such format", alone("sample --backend test --format nothing")),
        ("no such backend", alone("sample --backend nothing")),
        ("a wrong configuration", alone("config check /no/such/file")),
        ("a capability is served by less", alone("doctor --backend procfs")),
        ("a part is missing", alone(&format!("sample --backend procfs --disk --pid {own}"))),
        ("not permitted", code(as_other_user(&folder, &["sample", "--backend", "ebpf"]))),
        ("no such process", alone("sample --backend test --pid 3")),
        ("no such job", alone("job show nosuch --backend test --mpir")),
        ("no process matches", alone("sample --backend test --comm nosuch")),
        ("no service answers", alone("list --socket /no/such/socket")),
        ("a sentence does not hold", nonconforming()),
        ("SIGINT ends a watch", signalled(WATCH, Signal::INT)),
        ("the command's own code", alone("run --backend test -- sh -c exit${IFS}23")),
        ("the command cannot be executed", alone("run --backend test -- /dev/null")),
        ("there is no such command", alone("run --backend test -- /no/such/file")),
        ("a signal ended the command", alone("run --backend test -- sh -c kill${IFS}-9${IFS}$$")),
    ];
    let out: String = ways.iter().map(|(way, code)| format!("{code:>3}  {way}\n")).collect();
    check("command/exits.txt", &out);
}

const WATCH: &str = "watch --backend test --every 10ms --format json";

/// The exit code of the suite for a service, and a case that no implementation passes.
fn nonconforming() -> i32 {
    let (served, folder) = (Served::with(""), Folder::new());
    let case = "says 5.1 It prints.\n> 1 [{node}] print([1])\n~ 1 [{node}] print(0,[2])";
    std::fs::write(folder.join("case.txt"), case).unwrap();
    let mut command = program(&["conformance"]);
    let _same = command.arg("--socket").arg(served.socket()).arg("--cases").arg(folder.path());
    code(command)
}

/// The exit code when a service refuses every call with this status.
fn refusing(number: i32, name: &str) -> i32 {
    let folder = Folder::new();
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let data = format!("{{\"status\":\"{name}\"}}");
    let error = format!("{{\"code\":{number},\"message\":\"no\",\"data\":{data}}}");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let call: serde_json::Value = serde_json::from_str(&line).unwrap();
            let id = &call["id"];
            // The program may have exited.
            let _ = writeln!(writer, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
        }
    });
    let mut command = program(&["list"]);
    let _same = command.env("MONITOR_SOCKET", &socket);
    let code = code(command);
    server.join().unwrap();
    code
}

#[test]
fn every_error_of_a_service_has_its_exit_code() {
    let statuses = [
        (-1, "ERROR"),
        (-11, "EXISTS"),
        (-23, "NO_PERMISSIONS"),
        (-24, "TIMEOUT"),
        (-25, "UNREACH"),
        (-27, "BAD_PARAM"),
        (-29, "OUT_OF_RESOURCE"),
        (-46, "NOT_FOUND"),
        (-47, "NOT_SUPPORTED"),
        (-64, "NOT_AVAILABLE"),
    ];
    let line = |(number, name): (i32, &str)| format!("{:>3}  {name}\n", refusing(number, name));
    check("command/refusals.txt", &statuses.into_iter().map(line).collect::<String>());
}

#[test]
fn the_status_of_a_reply_decides_the_exit_code() {
    let served = Served::with("");
    let ask = |request: &str| {
        let mut command = program(&["ask", request]);
        let _same = command.env("MONITOR_SOCKET", served.socket());
        format!("{:>3}  {request}\n", code(command))
    };
    let requests = [
        "1 [0] number_of_nodes()",
        "1 [0] number_of_nodes(",
        "1 [0] no_such_service()",
        "1 [9] number_of_nodes()",
        "1 [0] process_info([3],0)",
        "1 [0] enable(23)",
        "1 [0] attach([3,1234])",
    ];
    check("command/replies.txt", &requests.map(ask).concat());
}
