//! `monitor send`: a file of this node on others.
//!
//! In: a file, a set of nodes. Out: where the file is on each node, equal paths once, and a line
//! for each reason why others do not have it. The service of this node uploads it, over TLS.

use super::args::daemon::SendArgs;
use super::client::with_daemon;
use super::exit::{Exit, Failure};
use super::node_blocks::blocks;
use super::node_replies::MissingNodes;
use super::output::print;
use monitor_client::{SendFile, SentFile};
use monitor_format::human;
use monitor_model::id::Ns;
use monitor_protocol::transfer::NodeSent;
use std::path::{Path, absolute};

/// What a node says that permits no control by users of this one.
const DENIED: &str = "users of other nodes may only observe";

/// Sends the file.
pub fn send(args: &SendArgs) -> Result<Exit, Failure> {
    let params = SendFile {
        path: absolute_path(&args.file)?,
        nodes: args.nodes.clone(),
        name: args.name.clone(),
        within_ns: Some(Ns::from(args.within).0),
    };
    let daemon = args.daemon.socket.as_deref();
    let sent = with_daemon(daemon, async |client| client.send_file(&params).await)?;
    let text = match args.printed.is_json() {
        true => serde_json::to_string(&sent).map(|it| it + "\n").map_err(Failure::failed)?,
        false => text(&sent),
    };
    let exit = print(text.as_bytes())?;
    let (missing, count) = (missing(&sent), received(&sent));
    let all_denied = missing.notices().iter().all(|it| it.contains(DENIED));
    let is_denied = count == 0 && !missing.is_empty() && all_denied;
    let exit = if exit == Exit::Ok && is_denied { Exit::Denied } else { exit };
    Ok(missing.end(count, exit))
}

/// The path of a file for the service, which has another working directory.
fn absolute_path(file: &Path) -> Result<String, Failure> {
    let path =
        absolute(file).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: the name is not UTF-8", file.display())))
}

/// How many nodes have the file.
fn received(sent: &SentFile) -> usize {
    sent.nodes.iter().filter(|it| it.path.is_some()).count()
}

fn missing(sent: &SentFile) -> MissingNodes {
    let mut missing = MissingNodes::default();
    for it in sent.nodes.iter().filter(|it| it.path.is_none()) {
        missing.add(&it.node, (it.outcome, it.why.as_deref().unwrap_or_default()));
    }
    missing
}

/// A line for each path, with the nodes that have the file there.
fn text<'a>(sent: &'a SentFile) -> String {
    let of_node = |it: &'a NodeSent| Some((it.node.as_str(), it.path.as_deref()?));
    let paths = blocks(sent.nodes.iter().filter_map(of_node));
    let line = |path: &str| human::escaped_text(path);
    paths.iter().map(|block| format!("{}: {}\n", block.set(), line(block.text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::NodeOutcome;
    use monitor_protocol::transfer::FileDigest;

    #[test]
    fn nodes_with_the_file_are_folded_and_the_others_are_named() {
        let node = |node: &str, path: Option<&str>, outcome, why: Option<&str>| NodeSent {
            node: node.to_owned(),
            outcome,
            path: path.map(str::to_owned),
            why: why.map(str::to_owned),
        };
        let sent = SentFile {
            bytes: 3,
            sha256: FileDigest([0; 32]),
            nodes: vec![
                node("n1", Some("/a/0/x"), NodeOutcome::Executed, None),
                node("n2", Some("/a/0/x"), NodeOutcome::Executed, None),
                node("n3", None, NodeOutcome::Refused, Some("no")),
            ],
        };
        assert_eq!(text(&sent), "n[1-2]: /a/0/x\n");
        assert_eq!(missing(&sent).notices(), ["n3: refused: no"]);
        assert_eq!(missing(&sent).end(received(&sent), Exit::Ok), Exit::Partial);
    }
}
