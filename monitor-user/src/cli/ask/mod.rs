//! `monitor ask`: requests go in, replies come out, events for as long as they are waited for.
//!
//! In: words, or lines of the standard input. Out: reply lines; for people, what is wrong with a
//! line is drawn on the standard error too. The worst reply decides the exit code.

mod local;
mod verdict;

use super::exit::{Exit, Failure};
use super::words::Ask;
use crate::omis::{Dialect, Value};
use std::io::{BufRead, stdin};

/// Asks.
pub fn ask(words: &Ask) -> Result<Exit, Failure> {
    local::ask(words)
}

/// How the session speaks.
const fn dialect(words: &Ask) -> Dialect {
    if words.strict { Dialect::Strict } else { Dialect::Extended }
}

/// The lines to say: those of the command line, and where one is `-` those that are read.
fn lines(words: &Ask) -> impl Iterator<Item = Result<Vec<u8>, Failure>> {
    let all = words.request.iter().flat_map(|word| -> Box<dyn Iterator<Item = _>> {
        if word != "-" {
            return Box::new([Ok(word.as_bytes().to_vec())].into_iter());
        }
        let lines = stdin().lock().split(b'\n');
        Box::new(lines.map(|line| {
            line.map_err(|why| Failure::failed(format!("cannot read the standard input: {why}")))
        }))
    });
    all.filter(|line| !line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty()))
}

/// What attaches the processes that were named, before anything else is asked.
fn attachments(words: &Ask) -> Vec<String> {
    let mut lines = Vec::new();
    if !words.pid.is_empty() {
        let pids = words.pid.iter().map(|pid| Value::from(*pid)).collect();
        lines.push(format!("0 [] attach({})", Value::List(pids)));
    }
    let text = |text: &String| Value::from(text.as_str());
    let comms = words.comm.iter().map(|comm| format!("0 [] attach_command({})", text(comm)));
    let cgroups = words.cgroup.iter().map(|path| format!("0 [] attach_cgroup({})", text(path)));
    lines.extend(comms.chain(cgroups));
    lines
}
