//! The requests to send: those of the command line, and for `-` the lines of standard input.

use super::super::daemon_args::AskArgs;
use super::super::exit::Failure;
use super::Incoming;
use monitor_omis::Value;
use std::io::{BufRead, stdin};
use std::sync::mpsc::Sender;

/// Sends the requests one by one; a thread reads standard input and ends with the program.
pub fn read(args: &AskArgs, sender: Sender<Incoming>) -> Result<(), Failure> {
    if !args.request.iter().any(|word| word == "-") {
        for word in &args.request {
            // Cannot fail: the caller holds the receiver.
            let _ = sender.send(Incoming::Request(word.as_bytes().to_vec()));
        }
        let _ = sender.send(Incoming::EndOfInput);
        return Ok(());
    }
    let all = args.request.clone();
    let thread = std::thread::Builder::new().name("input".into());
    let spawned = thread.spawn(move || {
        for word in all {
            if word == "-" {
                let lines = stdin().lock().split(b'\n').map_while(Result::ok);
                for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
                    if sender.send(Incoming::Request(line)).is_err() {
                        return;
                    }
                }
            } else if sender.send(Incoming::Request(word.into_bytes())).is_err() {
                return;
            }
        }
        let _ = sender.send(Incoming::EndOfInput);
    });
    let failed = |why| Failure::failed(format!("cannot read standard input: {why}"));
    spawned.map(drop).map_err(failed)
}

/// The requests that open the session: they attach processes and select the dialect.
pub fn opening(args: &AskArgs) -> Vec<String> {
    let mut lines = Vec::new();
    if !args.pid.is_empty() {
        let pids = args.pid.iter().map(|pid| Value::from(*pid)).collect();
        lines.push(format!("0 [] attach({})", Value::List(pids)));
    }
    let text = |text: &String| Value::from(text.as_str());
    let comms = args.comm.iter().map(|comm| format!("0 [] attach_command({})", text(comm)));
    let cgroups = args.cgroup.iter().map(|path| format!("0 [] attach_cgroup({})", text(path)));
    lines.extend(comms.chain(cgroups));
    // Last: a strict session cannot attach.
    lines.extend(args.strict.then(|| "0 [] dialect(\"strict\")".to_owned()));
    lines
}
