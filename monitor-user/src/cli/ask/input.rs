//! The lines to say: those of the command line, and where one is `-` those that are read.

use super::super::exit::Failure;
use super::super::words::Ask;
use super::Came;
use monitor_omis::Value;
use std::io::{BufRead, stdin};
use std::sync::mpsc::Sender;

/// Sends them, one by one; those of the standard input by a thread that ends with the program.
pub fn read(words: &Ask, sender: Sender<Came>) -> Result<(), Failure> {
    if !words.request.iter().any(|word| word == "-") {
        for word in &words.request {
            // The other end is in our hands.
            let _ = sender.send(Came::Said(word.as_bytes().to_vec()));
        }
        let _ = sender.send(Came::NoMore);
        return Ok(());
    }
    let all = words.request.clone();
    let thread = std::thread::Builder::new().name("input".into());
    let spawned = thread.spawn(move || {
        for word in all {
            if word == "-" {
                let lines = stdin().lock().split(b'\n').map_while(Result::ok);
                for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
                    if sender.send(Came::Said(line)).is_err() {
                        return;
                    }
                }
            } else if sender.send(Came::Said(word.into_bytes())).is_err() {
                return;
            }
        }
        let _ = sender.send(Came::NoMore);
    });
    let failed = |why| Failure::failed(format!("cannot read the standard input: {why}"));
    spawned.map(drop).map_err(failed)
}

/// What is said before anything else: how the session speaks, and which processes it observes.
pub fn opening(words: &Ask) -> Vec<String> {
    let mut lines = Vec::new();
    if !words.pid.is_empty() {
        let pids = words.pid.iter().map(|pid| Value::from(*pid)).collect();
        lines.push(format!("0 [] attach({})", Value::List(pids)));
    }
    let text = |text: &String| Value::from(text.as_str());
    let comms = words.comm.iter().map(|comm| format!("0 [] attach_command({})", text(comm)));
    let cgroups = words.cgroup.iter().map(|path| format!("0 [] attach_cgroup({})", text(path)));
    lines.extend(comms.chain(cgroups));
    // Last: a strict session cannot attach.
    lines.extend(words.strict.then(|| "0 [] dialect(\"strict\")".to_owned()));
    lines
}
