//! The steps of a case that any implementation can run: requests, replies, and what its processes
//! do.
//!
//! In: a case. Out: steps, in which the numbers of processes and nodes are still to be filled in.
//! Lines `memory …` are left out: what they describe happens by itself where processes are real.

use super::case::{Case, CaseError, Line};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request; no reply may be left before it.
    Request(String),
    /// A request that is sent before the replies to the one before are read.
    Next(String),
    /// The next reply, as a pattern (`monitor_omis::reply_pattern`).
    Reply(String),
    /// The processes that the session attaches, as a list.
    Attach(String),
    /// This process starts: 1 or 2.
    Start(usize),
    /// This process ends.
    End(usize),
    /// This process gets this signal.
    Signal(usize, i32),
}

/// The steps of a case, each with the number of its line.
///
/// # Errors
///
/// The first line that only the tests in memory can run.
pub fn steps(case: &Case) -> Result<Vec<(usize, Step)>, CaseError> {
    let mut found = Vec::new();
    for line in &case.lines {
        match step(line) {
            Ok(Some(step)) => found.push((line.number, step)),
            Ok(None) => {}
            Err(()) => {
                let why = format!("no socket provides `{}`; add a line `needs …`", line.text);
                return Err(CaseError { file: case.file.clone(), number: line.number, why });
            }
        }
    }
    Ok(found)
}

fn step(line: &Line) -> Result<Option<Step>, ()> {
    let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
    Ok(Some(match word {
        "" | "#" | "strict" | "memory" => return Ok(None),
        ">" => Step::Request(rest.into()),
        ">+" => Step::Next(rest.into()),
        "~" => Step::Reply(rest.into()),
        "attach" => Step::Attach(rest.into()),
        "process" => Step::Start(process(rest)?),
        "at" => match rest.split(' ').collect::<Vec<_>>()[..] {
            [_time] => return Ok(None),
            [_time, "end", it] => Step::End(process(it)?),
            [_time, "signal", it, number] => {
                Step::Signal(process(it)?, number.parse().map_err(|_| ())?)
            }
            _ => return Err(()),
        },
        _ => return Err(()),
    }))
}

fn process(text: &str) -> Result<usize, ()> {
    match text {
        "{1}" => Ok(1),
        "{2}" => Ok(2),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::parse;

    #[test]
    fn lines_are_steps_or_need_memory() {
        let text = "says 5 A.\nstrict\nprocess {1}\n> 1 [{node}] f({1})\n~ 1 [{node}] f(0)\n\
            at 1ms signal {1} 10\nmemory at 2ms end {1}\nat 3ms";
        let case = parse("f.txt", text).unwrap().remove(0);
        let found: Vec<Step> = steps(&case).unwrap().into_iter().map(|(_, step)| step).collect();
        let request = Step::Request("1 [{node}] f({1})".into());
        let reply = Step::Reply("1 [{node}] f(0)".into());
        assert_eq!(found, [Step::Start(1), request, reply, Step::Signal(1, 10)]);

        let case = parse("f.txt", "says 5 A.\nnodes 2").unwrap().remove(0);
        let why = steps(&case).unwrap_err().to_string();
        assert_eq!(why, "f.txt:2: no socket provides `nodes 2`; add a line `needs …`");
    }
}
