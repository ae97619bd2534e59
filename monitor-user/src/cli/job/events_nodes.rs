//! `monitor job events --nodes`: events of the jobs of each node of a set, as they come.
//!
//! In: a set of nodes, on each of which the requests of `job events` wait. Out: a line for each
//! event, with the name of its node; in text an event of several nodes is one line. Events of
//! different nodes come in the order of their arrival.

use super::args::JobEventsArgs;
use super::events::{EventClass, PrintedEvent, Printer};
use super::history::parsed;
use crate::cli::client::{connect, runtime};
use crate::cli::exit::{Exit, Failure};
use crate::cli::folded_events::FoldedEvents;
use crate::cli::followed_nodes::{CountedName, FollowedItem, FollowedNodes};
use crate::cli::output::{Output, OutputState};
use crate::cli::run_loop::{EndSignals, tick};
use monitor_omis::Value;
use std::time::Duration;

const EVENTS: CountedName = CountedName { one: "event", many: "events", is_total: false };

/// Prints events until the end.
///
/// # Errors
/// If no service answers, or the set of nodes is none.
pub fn events_nodes(args: &JobEventsArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let client = connect(args.daemon.socket.as_deref()).await?;
        let classes = EventClass::named(args.class.as_deref());
        let lines = classes.iter().flat_map(|it| [it.wait(), it.begin()].map(str::to_owned));
        let nodes = FollowedNodes::start(&client, on, lines.collect(), EVENTS).await?;
        let n_replies = 2 * classes.len() as u64;
        follow((nodes, n_replies), &Printer::new(args), signals).await
    })
}

async fn follow(
    (mut nodes, n_replies): (FollowedNodes, u64),
    printer: &Printer,
    mut signals: EndSignals,
) -> Result<Exit, Failure> {
    let mut folded = FoldedEvents::default();
    let mut exit = Exit::Ok;
    while !nodes.is_over() {
        let due = folded.due();
        let item = tokio::select! {
            biased;
            end = signals.recv() => {
                exit = end.exit();
                break;
            }
            () = tick(due) => {
                if Output::Stream.put(folded.take().as_bytes())? == OutputState::Closed {
                    return Ok(Exit::Ok);
                }
                continue;
            }
            item = nodes.next() => item?,
        };
        let FollowedItem::Line(node, seq, line) = item else { continue };
        let reply = match parsed(&line) {
            Ok(reply) => reply,
            // A request was refused: the node waits for nothing.
            Err(why) if seq < n_replies => {
                nodes.refused(&node, &why.message);
                continue;
            }
            Err(_) => continue,
        };
        let values = reply.0.iter().flat_map(|answer| answer.results.iter());
        for it in values.filter_map(Value::list).filter_map(PrintedEvent::from_values) {
            if !printer.selects(&it) {
                continue;
            }
            nodes.count(&node, 1);
            if !printer.is_json() {
                folded.add(it.of_node(&node));
            } else if printer.print_of(Some(&node), &it)? == OutputState::Closed {
                return Ok(Exit::Ok);
            }
        }
    }
    let _state = Output::Stream.put(folded.take().as_bytes())?;
    Ok(nodes.end(exit))
}
