//! `monitor when --nodes`: one rule on each node of a set.
//!
//! In: an event, processes by command name or of a job, a set of nodes. Out: a line for each event
//! with the name of its node, in text one for an event of several nodes, and at the end how many
//! each node has sent, and the sum, and the times of calls; with `--total-above` only what is done
//! once, when the sum exceeds a number. The service of each node watches, with the rights of the
//! user there; it ends with the command.

use super::args::WhenArgs;
use super::event::{Actions, WhenEvent};
use super::node_times::TimedCalls;
use super::show;
use super::total::{self, EventTotal, SignalledNodes};
use super::watched_processes::WatchedProcesses;
use crate::cli::client::{connect, runtime};
use crate::cli::exit::{Exit, Failure};
use crate::cli::folded_events::{FoldedEvents, NodeEvent};
use crate::cli::followed_nodes::{CountedName, FollowedItem, FollowedNodes};
use crate::cli::output::{self, Output, OutputState, notice};
use crate::cli::run_loop::{EndSignals, tick};
use monitor_client::Client;
use monitor_event::tap::Edge;
use monitor_format::{events, human};
use monitor_model::Ns;
use monitor_model::event::Signal;
use monitor_omis::{Answer, Reply, Status, Value, parse};
use monitor_sys::clock;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::time::Instant;

const EVENTS: CountedName = CountedName { one: "event", many: "events", is_total: true };
/// The number of the request that is stored, which a notice about it has, too.
const RULE: u32 = 2;
/// The number of the action that sends an event; replies have others.
const SENDS: u32 = 3;
/// How long the last times of calls are awaited: nodes send them once a second.
const LAST_TIMES: Duration = Duration::from_secs(3);

/// Watches on all nodes until it is stopped, a limit is reached, or a total is exceeded.
///
/// # Errors
/// If an option is of this node alone, no service answers, the set of nodes is none, or no node has
/// the job.
pub fn when_nodes(
    args: &WhenArgs,
    (event, actions): (&WhenEvent, Actions),
    on: (&str, Duration),
) -> Result<Exit, Failure> {
    check(args, event, actions)?;
    let times = TimedCalls::from_event(event).filter(|_| actions.time);
    let mut rule_lines = rule_lines(event).to_vec();
    // Then calls are counted where they are timed.
    let counts_events = actions.print || actions.count || times.is_none();
    rule_lines.retain(|_| counts_events);
    rule_lines.extend(times.iter().flat_map(TimedCalls::lines));
    runtime()?.block_on(async {
        let mut signals = EndSignals::install()?;
        let client = connect(args.daemon.socket.as_deref()).await?;
        let watched = WatchedProcesses::find(args, &client, on).await?;
        let lines: Vec<String> = watched.attach().into_iter().chain(rule_lines).collect();
        let (prints, is_json) = (actions.print, args.printed.is_json());
        let n_replies = lines.len() as u64;
        let rule = NodeRule { event, prints, is_json, n_replies, counts_events };
        let mut following = RuleFollowing {
            nodes: FollowedNodes::start(&client, on, lines, EVENTS).await?,
            folded: FoldedEvents::default(),
            total: args.total_above.map(EventTotal::new),
            times,
        };
        let end = args.span.map(|span| Instant::now() + span);
        let ended = following.run(&rule, &mut signals, (end, args.lines)).await?;
        following.await_times().await?;
        let signal = actions.signal.map(|number| (&watched, number));
        following.end(&rule, ended, (&client, on, signal)).await
    })
}

/// Checks what the nodes can do.
fn check(args: &WhenArgs, event: &WhenEvent, actions: Actions) -> Result<(), Failure> {
    let is_once = args.total_above.is_some();
    let has_any = args.comm.iter().any(|comm| comm.chars().all(|it| it == '*'));
    let why = match () {
        () if args.comm.is_empty() && args.job.is_none() => {
            "no process selected: use --comm, or --job with --nodes"
        }
        () if actions.time && !matches!(event, WhenEvent::Call(..)) => {
            "time needs a call: use the event `call FUNCTION`"
        }
        () if actions.time && is_once => "--total-above is about events: leave out time",
        () if actions.signal.is_some() && !is_once => {
            "--nodes: actions are print, count and time; stop and kill need --total-above, and \
             act on the watched processes of all nodes"
        }
        () if actions.signal.is_some() && has_any => {
            "--comm '*' with stop or kill would act on all processes of the nodes: name them"
        }
        () => return Ok(()),
    };
    Err(Failure::usage(why))
}

/// The requests that store the rule on a node, and enable it.
fn rule_lines(event: &WhenEvent) -> [String; 2] {
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
        WhenEvent::Exec => ("process_exec([])".to_owned(), "$1"),
    };
    [
        format!("{RULE} [0] {service}: {SENDS} [0] print([{values}])"),
        format!("4 [0] enable({RULE})"),
    ]
}

/// A rule on many nodes.
struct NodeRule<'a> {
    event: &'a WhenEvent,
    prints: bool,
    is_json: bool,
    /// Number of the replies to the requests: they come first.
    n_replies: u64,
    /// Whether each event comes, and is counted.
    counts_events: bool,
}

/// An event of a node.
struct SentEvent {
    node: String,
    /// When it came.
    at: Ns,
    values: Vec<Value>,
}

/// Why a rule has ended.
enum RuleEnd {
    /// It was ended so, or no node sends any longer.
    Ended(Exit),
    /// Its time is over.
    Time,
    /// The reader of the output is gone.
    Reader,
    /// This event has exceeded the total.
    Exceeded(SentEvent),
}

/// What the nodes send.
struct RuleFollowing {
    nodes: FollowedNodes,
    folded: FoldedEvents,
    /// The total that is to be exceeded.
    total: Option<EventTotal>,
    /// The times of calls.
    times: Option<TimedCalls>,
}

impl RuleFollowing {
    /// Follows the nodes until the time, or this number of lines.
    async fn run(
        &mut self,
        rule: &NodeRule<'_>,
        signals: &mut EndSignals,
        (end, most): (Option<Instant>, Option<u64>),
    ) -> Result<RuleEnd, Failure> {
        let mut n_lines = 0;
        while !self.nodes.is_over() && most.is_none_or(|most| n_lines < most) {
            let due = self.folded.due();
            let item = tokio::select! {
                biased;
                end = signals.recv() => return Ok(RuleEnd::Ended(end.exit())),
                () = tick(end) => return Ok(RuleEnd::Time),
                () = tick(due) => {
                    if Output::Stream.put(self.folded.take().as_bytes())? == OutputState::Closed {
                        return Ok(RuleEnd::Reader);
                    }
                    continue;
                }
                item = self.nodes.next() => item?,
            };
            let FollowedItem::Line(node, seq, line) = item else { continue };
            // What the service sends beside replies is none.
            let Ok(reply) = parse::reply(line.as_bytes()) else { continue };
            self.note_failures((&node, seq < rule.n_replies), &reply);
            if let Some(times) = &mut self.times {
                times.add((&node, seq), &reply);
            }
            for values in sent(&reply) {
                let (node, values) = (node.clone(), values.to_vec());
                let event = SentEvent { node, at: clock::now().unix, values };
                self.nodes.count(&event.node, 1);
                if self.total.as_mut().is_some_and(EventTotal::count) {
                    return Ok(RuleEnd::Exceeded(event));
                }
                if self.total.is_some() || !rule.prints {
                    continue;
                }
                n_lines += 1;
                if self.print(rule, &event)? == OutputState::Closed {
                    return Ok(RuleEnd::Reader);
                }
            }
        }
        Ok(RuleEnd::Ended(Exit::Ok))
    }

    /// Waits until each node has sent the times of its calls until now.
    async fn await_times(&mut self) -> Result<(), Failure> {
        let Some(times) = &mut self.times else { return Ok(()) };
        let (nodes, end) = (self.nodes.sending(), Instant::now() + LAST_TIMES);
        times.await_new();
        loop {
            let late: Vec<&String> = nodes.iter().filter(|node| !times.has_new(node)).collect();
            if late.is_empty() {
                return Ok(());
            }
            let item = tokio::select! {
                biased;
                () = tick(Some(end)) => {
                    let why = "its last times did not come";
                    late.into_iter().for_each(|node| self.nodes.incomplete(node, why));
                    return Ok(());
                }
                item = self.nodes.next() => item?,
            };
            if let FollowedItem::Line(node, seq, line) = item
                && let Ok(reply) = parse::reply(line.as_bytes())
            {
                times.add((&node, seq), &reply);
            }
        }
    }

    /// Prints the times of the calls of all nodes.
    fn print_times(&mut self, rule: &NodeRule<'_>) -> Result<(), Failure> {
        let Some(times) = &self.times else { return Ok(()) };
        if !rule.counts_events {
            times.n_calls().for_each(|(node, n)| self.nodes.count(node, n));
        }
        let text = show::summary(&times.rows(), 0, rule.is_json);
        Output::Stream.put(text.as_bytes()).map(drop)
    }

    /// Notes what a node has refused, and events that it has not sent.
    fn note_failures(&mut self, (node, is_first): (&str, bool), reply: &Reply) {
        for answer in reply.0.iter().filter(|it| !it.status.is_success()) {
            match refusal(answer) {
                why if is_first && answer.status != Status::LOST => self.nodes.refused(node, &why),
                why => match lost_events(answer) {
                    Some(n) => self.nodes.count_lost(node, n),
                    None => self.nodes.incomplete(node, &why),
                },
            }
        }
    }

    fn print(&mut self, rule: &NodeRule<'_>, event: &SentEvent) -> Result<OutputState, Failure> {
        let SentEvent { node, at, values } = event;
        if rule.is_json {
            let line = output::json(&rule.to_json((node, *at), values))?;
            return Output::Stream.put(line.as_bytes());
        }
        self.folded.add(rule.node_event((node, *at), values));
        Ok(OutputState::Open)
    }

    /// Does what is done once, prints what each node has sent, and makes the exit code.
    async fn end(
        mut self,
        rule: &NodeRule<'_>,
        ended: RuleEnd,
        (client, on, signal): (&Client, (&str, Duration), Option<(&WatchedProcesses, u32)>),
    ) -> Result<Exit, Failure> {
        let exit = match (ended, self.total) {
            (RuleEnd::Reader, _) => return Ok(Exit::Ok),
            (RuleEnd::Exceeded(event), Some(total)) => {
                let printed = self.print_total(rule, (&event, total));
                // What cannot be printed is done all the same.
                let exit = match signal {
                    Some(signal) => {
                        let done = SignalledNodes::signal(client, on, signal).await?;
                        let line = total::line(done.text(), &done.to_json(), rule.is_json)?;
                        let _state = Output::Stream.put(line.as_bytes())?;
                        done.end()
                    }
                    None => Exit::Ok,
                };
                printed?;
                exit
            }
            (RuleEnd::Time, Some(_)) => Exit::TimedOut,
            (RuleEnd::Ended(exit), _) => exit,
            (RuleEnd::Time | RuleEnd::Exceeded(_), _) => Exit::Ok,
        };
        let _state = Output::Stream.put(self.folded.take().as_bytes())?;
        self.print_times(rule)?;
        if let Some(total) = self.total.filter(|total| !total.is_exceeded()) {
            notice(&total.text(&self.nodes));
        }
        Ok(self.nodes.end(exit))
    }

    /// Prints the total, and the event that exceeded it, if events are printed.
    fn print_total(
        &mut self,
        rule: &NodeRule<'_>,
        (event, total): (&SentEvent, EventTotal),
    ) -> Result<(), Failure> {
        if rule.prints {
            let _state = self.print(rule, event)?;
        }
        let (text, object) = (total.text(&self.nodes), total.to_json(&self.nodes));
        let lines = self.folded.take() + &total::line(text, &object, rule.is_json)?;
        Output::Stream.put(lines.as_bytes()).map(drop)
    }
}

impl NodeRule<'_> {
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

/// Why a request was refused, or what a notice says.
fn refusal(answer: &Answer) -> String {
    let text = answer.results.iter().find_map(Value::text);
    let text = text.map(|it| it.to_str_lossy().into_owned());
    text.unwrap_or_else(|| format!("status {}", answer.status.0))
}

/// The number of events that a notice says to be lost, if it knows it.
fn lost_events(answer: &Answer) -> Option<u64> {
    let is_lost = answer.status == Status::LOST;
    let n: i64 = answer.results.first().filter(|_| is_lost)?.integer()?;
    u64::try_from(n).ok()
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
    use clap::Parser;
    use monitor_omis::Dialect;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        when: WhenArgs,
    }

    fn rule(event: &WhenEvent) -> NodeRule<'_> {
        NodeRule { event, prints: true, is_json: false, n_replies: 3, counts_events: true }
    }

    #[test]
    fn every_event_is_a_valid_request_of_the_service() {
        let calls = ["call open,close", "return libc:open@GLIBC_2.2.5"];
        for text in calls.into_iter().chain(["signal TERM", "exec", "end"]) {
            let event = WhenEvent::from_text(text).expect("an event");
            for line in rule_lines(&event) {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
    }

    #[test]
    fn what_nodes_cannot_do_is_refused_by_name() {
        let refusal_at = |event: &str, words: &[&str]| {
            let words = [&["when", event][..], words, &["--nodes", "n1"]].concat();
            let cli = Words::try_parse_from(words).expect("valid words");
            let event = WhenEvent::from_text(event).expect("an event");
            let actions = Actions::from_text(&cli.when.actions).expect("actions");
            check(&cli.when, &event, actions).err().map(|it| it.message).unwrap_or_default()
        };
        let refusal = |words: &[&str]| refusal_at("end", words);
        assert!(refusal(&[]).contains("use --comm, or --job"));
        assert_eq!(refusal(&["--comm", "a"]), "");
        assert!(refusal(&["time", "--comm", "a"]).contains("time needs a call"));
        assert_eq!(refusal_at("call f", &["time", "--comm", "a"]), "");
        let total = ["time", "--comm", "a", "--total-above", "3"];
        assert!(refusal_at("call f", &total).contains("leave out time"));
        assert!(refusal(&["stop", "--comm", "a"]).contains("need --total-above"));
        let once = ["--total-above", "3"];
        assert_eq!(refusal(&[&["stop", "--job", "77"][..], &once].concat()), "");
        let all = ["kill TERM", "--comm", "*"];
        assert!(refusal(&[&all[..], &once].concat()).contains("name them"));
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
        assert_eq!(sent(&other).count(), 0);
    }

    #[test]
    fn a_notice_says_how_many_events_are_lost_or_why() {
        let answer = |line: &[u8]| parse::reply(line).expect("a reply").0.remove(0);
        let refused = answer(b"2 [0] process_signal(400,2,\"no right\")");
        assert_eq!((refusal(&refused).as_str(), lost_events(&refused)), ("no right", None));
        assert_eq!(lost_events(&answer(b"2 [0] process_signal(407,5)")), Some(5));
        assert_eq!(lost_events(&answer(b"0 [] error(407,7,\"read faster\")")), Some(7));
        let unseen = answer(b"2 [0] start_lib_call(407,-1,\"calls not seen\")");
        assert_eq!((lost_events(&unseen), refusal(&unseen).as_str()), (None, "calls not seen"));
    }
}
