//! `monitor job events`: a line for each transition of jobs, as the service of the node reports it.
//!
//! In: events of the service `job_changed`, and what it has kept of the time before. Out: text or
//! lines of JSON, until it is interrupted or the service ends.

use super::args::JobEventsArgs;
use super::history::{self, JobHistory, parsed, status_text, transition, transition_json};
use super::reader::user;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Output, OutputState, notice};
use crate::cli::run_loop::{EndSignals, LoopEnd};
use monitor_client::tool::Tool;
use monitor_format::human;
use monitor_jobs::job_log::{JobChange, JobTransition};
use monitor_omis::{Reply, Value};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The request that waits for transitions and sends their values.
const WAIT: &str = "1 [0] job_changed([]): 2 [0] print([$1,$2,$3,$4,$5,$6,$7,$8,$9,$10])";
const BEGIN: &str = "3 [0] enable(1)";

/// Prints transitions until the end.
///
/// # Errors
/// If no service answers, or it refuses the call.
pub fn events(args: &JobEventsArgs) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let tool = history::connect(args.daemon.socket.as_deref())?;
        let mut printer =
            Printer { job: args.job.clone().unwrap_or_default(), is_json: args.format == "json" };
        let lines = begin(args, &tool, &mut printer)?;
        printer.follow(lines, signals).await
    })
}

/// Waits for transitions from now on, and prints those before: in one line, so that none is lost
/// or printed twice.
fn begin(
    args: &JobEventsArgs,
    tool: &Tool,
    printer: &mut Printer,
) -> Result<UnboundedReceiver<Reply>, Failure> {
    let (sender, lines) = unbounded_channel();
    let (refused, refusal) = std::sync::mpsc::channel();
    let mut is_defined = false;
    tool.request(WAIT, move |line| {
        let reply = parsed(line);
        match reply {
            // The receiver is there until the end.
            Ok(reply) if is_defined => drop(sender.send(reply)),
            reply => drop(refused.send(reply.map(drop))),
        }
        is_defined = true;
    })?;
    refusal.recv().unwrap_or_else(|_| Err(history::lost()))?;
    let line = match args.replay {
        Some(last) => format!("{BEGIN}; 4 [0] {}", history::call(&printer.job, last)),
        None => BEGIN.to_owned(),
    };
    let results = history::last_results(&tool.request_block(&line)?)?;
    if let Some(last) = args.replay {
        let history = JobHistory::from_results(&results)?;
        history.gap(last).into_iter().for_each(|gap| notice(&gap));
        for it in &history.transitions {
            let _state = printer.print(it)?;
        }
    }
    Ok(lines)
}

/// Prints the transitions of a job, or of all.
struct Printer {
    job: String,
    is_json: bool,
}

impl Printer {
    async fn follow(
        &self,
        mut lines: UnboundedReceiver<Reply>,
        mut signals: EndSignals,
    ) -> Result<Exit, Failure> {
        loop {
            let reply = tokio::select! {
                biased;
                end = signals.recv() => {
                    let is_interrupted = end == LoopEnd::Interrupted;
                    return Ok(if is_interrupted { Exit::Interrupted } else { Exit::Ok });
                }
                reply = lines.recv() => reply.ok_or_else(history::lost)?,
            };
            let values = reply.0.iter().flat_map(|answer| answer.results.iter());
            for it in values.filter_map(Value::list).filter_map(transition) {
                if self.print(&it)? == OutputState::Closed {
                    return Ok(Exit::Ok);
                }
            }
        }
    }

    fn print(&self, it: &JobTransition) -> Result<OutputState, Failure> {
        if !it.is_of(&self.job) {
            return Ok(OutputState::Open);
        }
        let line = if self.is_json { json_line(it)? } else { text_line(it) };
        Output::Stream.put(line.as_bytes())
    }
}

fn json_line(it: &JobTransition) -> Result<String, Failure> {
    let mut object = transition_json(it);
    if let Json::Object(members) = &mut object {
        let _none = members.insert("schema_version".to_owned(), json!(1));
    }
    output::json(&object)
}

fn text_line(it: &JobTransition) -> String {
    let mut out = String::new();
    human::timestamp(it.at, &mut out);
    out += &format!(" {} {}", human::escaped_text(&it.id), it.change.name());
    let age = human::duration_text(it.age.0 as f64);
    match it.change {
        JobChange::Appeared => {
            out += &format!(": {}", it.runtime.name());
            if let Some(pid) = it.launcher {
                out += &format!(", launcher {}", pid.0);
            }
            if let Some(uid) = it.uid {
                out += &format!(", user {}", human::escaped_text(&user(uid)));
            }
        }
        JobChange::Ready => out += &format!(": {} ranks", it.ranks),
        JobChange::Stopped | JobChange::Continued => {}
        JobChange::Ended => out += &format!(": status {}, after {age}", status_text(it.end)),
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn it(change: &str, code: i32, signal: i32) -> JobTransition {
        let text = Value::from;
        let values = [text("a\u{1b}"), text("hydra"), text(change), 6.into(), 4_000_000.into()];
        let more: [Value; 5] =
            [code.into(), signal.into(), 2.into(), 1.5.into(), 5_000_000_000_u64.into()];
        transition(&[&values[..], &more[..]].concat()).expect("ten values")
    }

    #[test]
    fn a_line_has_what_the_transition_is_about() {
        let start = "1970-01-01T00:00:05Z a\\u{1b}";
        let lines = [it("appeared", -1, -1), it("ready", -1, -1), it("ended", 137, 9)];
        let lines: Vec<_> = lines.iter().map(text_line).collect();
        assert_eq!(
            lines,
            [
                format!("{start} appeared: hydra, launcher 6, user 4000000\n"),
                format!("{start} ready: 2 ranks\n"),
                format!("{start} ended: status SIGKILL, after 1.5s\n"),
            ]
        );
    }

    #[test]
    fn a_line_of_json_has_null_for_what_is_unknown() {
        let line = json_line(&it("stopped", -1, -1)).expect("an object");
        let object: Json = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&object["state"], &object["code"]), (&json!("stopped"), &Json::Null));
        assert_eq!(object["schema_version"], 1);
    }
}
