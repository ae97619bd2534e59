//! `monitor top --nodes`: the whole cluster on one screen, and from there the screen of any node.
//!
//! In: a set of nodes, the service of a gateway. Out: the exit code when the user quits. While the
//! screen of a node is open, roll-ups are not read.

use super::args::TopArgs;
use super::node_source::NodeSource;
use super::rollup_source::RollupSource;
use super::terminal::{cannot, theme_of};
use crate::cli::client::connect;
use crate::cli::exit::Failure;
use monitor_client::{Client, RollupQuery};
use monitor_cluster::node_set::expand;
use monitor_tui::cluster::{ClusterEnded, ClusterTop};
use monitor_tui::run::{Ended, TerminalSession, Top};
use monitor_tui::state::View;
use std::collections::BTreeSet;

/// Shows the cluster until the user quits.
pub async fn top_cluster(args: &TopArgs, view: View, set: &str) -> Result<Ended, Failure> {
    let client = connect(args.reader.socket.as_deref()).await?;
    // Refused before the terminal changes, if this node is no gateway.
    let rollup = client.rollup(&RollupQuery::default()).await?;
    let all: BTreeSet<String> = rollup.nodes.into_iter().map(|it| it.node).collect();
    let shown = expand(set, &all).map_err(|why| Failure::usage(format!("--nodes: {why}")))?;
    if shown.intersection(&all).next().is_none() {
        let why = format!("--nodes: no node of the cluster is in {set:?}: see monitor nodes");
        return Err(Failure::usage(why));
    }
    // Nodes that come later are shown too, if all are.
    let shown = (shown != all).then_some(shown);
    let mut session = TerminalSession::open().map_err(|error| cannot(&error))?;
    let mut cluster = ClusterTop::new(theme_of(args), shown);
    let mut feed = RollupSource::new(client.clone());
    loop {
        let ended = cluster.run(&mut session, &mut feed).await.map_err(|error| cannot(&error))?;
        let node = match ended {
            ClusterEnded::Ended(ended) => return Ok(ended),
            ClusterEnded::Node(node) => node,
        };
        match show_node(&mut session, args, (&client, &node, view.clone())).await? {
            Ended::Quit => {}
            Ended::Over(why) => cluster.say(format!("{node}: {why}")),
            ended => return Ok(ended),
        }
    }
}

async fn show_node(
    session: &mut TerminalSession,
    args: &TopArgs,
    (client, node, view): (&Client, &str, View),
) -> Result<Ended, Failure> {
    let mut top = Top::new(session, theme_of(args), view).map_err(|error| cannot(&error))?;
    top.draw().map_err(|error| cannot(&error))?;
    let query = top.state().view_query();
    let mut source = NodeSource::new(client.clone(), node.to_owned(), query);
    top.run(&mut source).await.map_err(|error| cannot(&error))
}
