//! `monitor when --nodes`: one rule on each node of a set.
//!
//! In: an event, processes by command name, a set of nodes. Out: a line for each event with the
//! name of its node, in text one for an event of several nodes, and at the end how many each node
//! has sent, and the sum. The service of each node watches, with the rights of the user there; it
//! ends with the command.

use super::args::WhenArgs;
use super::event::{Actions, WhenEvent};
use crate::cli::client::{connect, runtime};
use crate::cli::exit::{Exit, Failure};
use crate::cli::folded_events::{FoldedEvents, NodeEvent};
use crate::cli::followed_nodes::{CountedName, FollowedItem, FollowedNodes};
use crate::cli::output::{self, Output, OutputState};
use crate::cli::run_loop::{EndSignals, tick};
use monitor_event::tap::Edge;
use monitor_format::{events, human};
use monitor_model::Ns;
use monitor_model::event::Signal;
use monitor_omis::{Reply, Status, Value, parse};
use monitor_sys::clock;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::time::Instant;

const EVENTS: CountedName = CountedName { one: "event", many: "events" };
/// The number of the action that sends an event; replies have others.
const SENDS: u32 = 3;

/// Watches on all nodes until it is stopped, or a limit is reached.
///
/// # Errors
/// If an option is of this node alone, no service answers, or the set of nodes is none.
pub fn when_nodes(
    args: &WhenArgs,
    (event, actions): (&WhenEvent, Actions),
    on: (&str, Duration),
) -> Result<Exit, Failure> {
    if actions.time || actions.signal.is_some() {
        return Err(Failure::usage("--nodes: actions are print and count"));
    }
    let lines = requests(event, &args.comm)?;
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let client = connect(args.daemon.socket.as_deref()).await?;
        let nodes = FollowedNodes::start(&client, on, lines, EVENTS).await?;
        let rule = NodeRule {
            event,
            prints: actions.print,
            is_json: args.printed.is_json(),
            n_replies: args.comm.len() as u64 + 2,
        };
        let end = args.span.map(|span| Instant::now() + span);
        rule.follow((nodes, signals), (end, args.lines)).await
    })
}

/// The requests of one node: they attach processes, and watch for the event.
fn requests(event: &WhenEvent, comms: &[String]) -> Result<Vec<String>, Failure> {
    if comms.is_empty() {
        return Err(Failure::usage("no process selected: use --comm"));
    }
    let attach = |name: &String| format!("1 [0] attach_command({})", Value::from(name.as_str()));
    let mut lines: Vec<String> = comms.iter().map(attach).collect();
    let functions = |names: &[String]| Value::from(names.join("|").as_str());
    let (service, values) = match event {
        WhenEvent::Call(Edge::Start, names) => {
            (format!("start_lib_call([],{})", functions(names)), "$1")
        }
        WhenEvent::Call(Edge::End, names) => {
            (format!("end_lib_call([],{})", functions(names)), "$1")
        }
        WhenEvent::Signal(numbers) => {
            let numbers = Value::List(numbers.iter().map(|it| Value::from(*it)).collect());
            (format!("process_signal([],{numbers})"), "$1,$2")
        }
        WhenEvent::End => ("process_terminated([])".to_owned(), "$1,$2,$3"),
        WhenEvent::Exec => {
            let why = "--nodes: exec is no event there: use call, return, signal or end";
            return Err(Failure::usage(why));
        }
    };
    lines.push(format!("2 [0] {service}: {SENDS} [0] print([{values}])"));
    lines.push("4 [0] enable(2)".to_owned());
    Ok(lines)
}

/// A rule on many nodes.
struct NodeRule<'a> {
    event: &'a WhenEvent,
    prints: bool,
    is_json: bool,
    /// Number of the replies to the requests: they come first.
    n_replies: u64,
}

impl NodeRule<'_> {
    async fn follow(
        &self,
        (mut nodes, mut signals): (FollowedNodes, EndSignals),
        (end, most): (Option<Instant>, Option<u64>),
    ) -> Result<Exit, Failure> {
        let (mut n_lines, mut exit) = (0, Exit::Ok);
        let mut folded = FoldedEvents::default();
        while !nodes.is_over() && most.is_none_or(|most| n_lines < most) {
            let due = folded.due();
            let item = tokio::select! {
                biased;
                end = signals.recv() => {
                    exit = end.exit();
                    break;
                }
                () = tick(end) => break,
                () = tick(due) => {
                    if Output::Stream.put(folded.take().as_bytes())? == OutputState::Closed {
                        return Ok(Exit::Ok);
                    }
                    continue;
                }
                item = nodes.next() => item?,
            };
            let FollowedItem::Line(node, seq, line) = item else { continue };
            // What the service sends beside replies is none.
            let Ok(reply) = parse::reply(line.as_bytes()) else { continue };
            if seq < self.n_replies {
                if let Some(why) = refusal(&reply) {
                    nodes.refused(&node, &why);
                }
                continue;
            }
            for values in sent(&reply) {
                nodes.count(&node, 1);
                n_lines += u64::from(self.prints);
                if !self.prints {
                    continue;
                }
                let at = clock::now().unix;
                if !self.is_json {
                    folded.add(self.node_event((&node, at), values));
                    continue;
                }
                let line = output::json(&self.to_json((&node, at), values))?;
                if Output::Stream.put(line.as_bytes())? == OutputState::Closed {
                    return Ok(Exit::Ok);
                }
            }
        }
        let _state = Output::Stream.put(folded.take().as_bytes())?;
        Ok(nodes.end(exit))
    }

    fn node_event(&self, (node, at): (&str, Ns), values: &[Value]) -> NodeEvent {
        let pid = number(values, 0).unwrap_or(-1);
        let what = human::escaped_text(&self.what(values));
        let text = format!("{pid} {what}");
        NodeEvent { node: node.to_owned(), at, what, text }
    }

    fn to_json(&self, (node, at): (&str, Ns), values: &[Value]) -> Json {
        let known = |index| number(values, index).filter(|it| *it >= 0);
        let mut object = json!({
            "schema_version": 1, "node": node, "pid": number(values, 0), "received_unix_ns": at.0,
        });
        let (event, more) = match self.event {
            WhenEvent::Call(edge, names) => {
                let name = if *edge == Edge::Start { "call" } else { "return" };
                (name, vec![("functions", json!(names))])
            }
            WhenEvent::Signal(_) => ("signal", vec![("signal", json!(known(1)))]),
            WhenEvent::Exec => ("exec", Vec::new()),
            WhenEvent::End => {
                let signal = known(2).filter(|it| *it > 0);
                ("end", vec![("status", json!(known(1))), ("signal", json!(signal))])
            }
        };
        object["event"] = json!(event);
        for (name, value) in more {
            object[name] = value;
        }
        object
    }

    /// What has happened, with its values.
    fn what(&self, values: &[Value]) -> String {
        let signal = |number| {
            let number = u32::try_from(number).unwrap_or_default();
            events::signal_name(&Signal { number, code: 0, thread: None })
        };
        match self.event {
            WhenEvent::Call(Edge::Start, names) => format!("call {}", names.join(",")),
            WhenEvent::Call(Edge::End, names) => format!("return {}", names.join(",")),
            WhenEvent::Signal(_) => signal(number(values, 1).unwrap_or_default()),
            WhenEvent::Exec => "exec".to_owned(),
            WhenEvent::End => match (number(values, 1), number(values, 2)) {
                (_, Some(number @ 1..)) => format!("ended: {}", signal(number)),
                (Some(status @ 0..), _) => format!("ended: status {status}"),
                _ => "ended".to_owned(),
            },
        }
    }
}

/// Why a request was refused.
fn refusal(reply: &Reply) -> Option<String> {
    let failed = reply.0.iter().find(|answer| answer.status != Status::OK)?;
    let text = failed.results.iter().find_map(Value::text);
    let text = text.map(|it| it.to_str_lossy().into_owned());
    Some(text.unwrap_or_else(|| format!("status {}", failed.status.0)))
}

/// The values of the events in a reply.
fn sent(reply: &Reply) -> impl Iterator<Item = &[Value]> {
    let of_action = reply.0.iter().filter(|answer| answer.id.0 == SENDS.into());
    of_action.flat_map(|answer| answer.results.iter().filter_map(Value::list))
}

fn number(values: &[Value], index: usize) -> Option<i64> {
    values.get(index)?.integer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::Dialect;

    fn rule(event: &WhenEvent) -> NodeRule<'_> {
        NodeRule { event, prints: true, is_json: false, n_replies: 3 }
    }

    #[test]
    fn every_event_is_a_valid_request_of_the_service() {
        let comms = ["work*".to_owned(), "a\"b".to_owned()];
        for text in ["call open,close", "return libc:open@GLIBC_2.2.5", "signal TERM", "end"] {
            let event = WhenEvent::from_text(text).expect("an event");
            for line in requests(&event, &comms).expect("requests") {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
        let exec = WhenEvent::from_text("exec").expect("an event");
        assert!(requests(&exec, &comms).is_err_and(|it| it.exit == Exit::Usage));
        let end = WhenEvent::from_text("end").expect("an event");
        assert!(requests(&end, &[]).is_err_and(|it| it.message.contains("--comm")));
    }

    #[test]
    fn a_line_names_node_process_and_what_has_happened() {
        let at = ("n\u{1b}", Ns(5_000_000_000));
        let line = |event: &str, values: &[i32]| {
            let event = WhenEvent::from_text(event).expect("an event");
            let values: Vec<Value> = values.iter().map(|it| Value::from(*it)).collect();
            let mut folded = FoldedEvents::default();
            folded.add(rule(&event).node_event(at, &values));
            folded.take()
        };
        let start = "n\\u{1b}: 1970-01-01T00:00:05Z 7";
        assert_eq!(line("end", &[7, 3, 0]), format!("{start} ended: status 3\n"));
        assert_eq!(line("end", &[7, 137, 9]), format!("{start} ended: SIGKILL\n"));
        assert_eq!(line("end", &[7, -1, -1]), format!("{start} ended\n"));
        assert_eq!(line("signal", &[7, 15]), format!("{start} SIGTERM\n"));
        assert_eq!(line("call open", &[7]), format!("{start} call open\n"));
        let end = WhenEvent::from_text("end").expect("an event");
        let json = rule(&end).to_json(at, &[7.into(), 137.into(), 9.into()]);
        assert_eq!((&json["event"], &json["status"]), (&json!("end"), &json!(137)));
        assert_eq!((&json["signal"], &json["pid"]), (&json!(9), &json!(7)));
    }

    #[test]
    fn events_are_taken_from_the_action_alone() {
        let reply = parse::reply(b"3 [0] print(0,[7,3,0])").expect("a reply");
        assert_eq!(sent(&reply).count(), 1);
        let other = parse::reply(b"4 [0] enable(0,[7])").expect("a reply");
        assert_eq!((sent(&other).count(), refusal(&other)), (0, None));
        let refused = parse::reply(b"2 [0] process_signal(400,2,\"no right\")").expect("a reply");
        assert_eq!(refusal(&refused).as_deref(), Some("no right"));
    }
}
