//! `monitor top --replay FILE --nodes SET`: the recordings of `monitor record --nodes` as one
//! cluster, and from there the screen of any node at the same time.
//!
//! In: FILE, whose recordings are FILE.NODE, and a set of nodes. Out: the exit code when the user
//! quits.

use super::args::TopArgs;
use super::recordings_feed::RecordingsFeed;
use super::terminal::{cannot, theme_of};
use crate::cli::exit::Failure;
use monitor_cluster::node_set::{expand, fold};
use monitor_recording::Recording;
use monitor_tui::cluster::{ClusterEnded, ClusterTop};
use monitor_tui::replay_source::ReplaySource;
use monitor_tui::run::{Ended, TerminalSession, Top};
use monitor_tui::state::{PERIODS, View};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Plays the recordings until the user quits.
pub async fn top_recordings(
    args: &TopArgs,
    mut view: View,
    (file, set): (&Path, &str),
) -> Result<Ended, Failure> {
    let files = files(file, set)?;
    let missing: Vec<&str> =
        files.iter().filter(|it| it.1.is_none()).map(|it| it.0.as_str()).collect();
    let missing = (!missing.is_empty()).then(|| format!("no recording of {}", fold(missing)));
    let mut feed = RecordingsFeed::open(files)?;
    view.period = args.every.unwrap_or(feed.period()).clamp(PERIODS[0], PERIODS[1]);
    let mut session = TerminalSession::open().map_err(|error| cannot(&error))?;
    let mut cluster = ClusterTop::recorded(theme_of(args), view.period);
    if let Some(missing) = missing {
        cluster.say(missing);
    }
    loop {
        let ended = cluster.run(&mut session, &mut feed).await.map_err(|error| cannot(&error))?;
        let node = match ended {
            ClusterEnded::Ended(ended) => return Ok(ended),
            ClusterEnded::Node(node) => node,
        };
        let view = View { frozen: cluster.is_frozen(), ..view.clone() };
        let Some(ended) = show_node(&mut session, args, (&mut feed, &node, view)).await? else {
            cluster.say(format!("no recording of {node}"));
            continue;
        };
        match ended {
            Ended::Quit => {}
            Ended::Over(why) => cluster.say(format!("{node}: {why}")),
            ended => return Ok(ended),
        }
    }
}

/// Shows a node from the time that the cluster shows; then the cluster goes on where that has
/// come to. `None` if the node has no recording.
async fn show_node(
    session: &mut TerminalSession,
    args: &TopArgs,
    (feed, node, view): (&mut RecordingsFeed, &str, View),
) -> Result<Option<Ended>, Failure> {
    let Some((at, path)) = feed.recording(node) else { return Ok(None) };
    let recording = Recording::open(path)?;
    let mut top = Top::new(session, theme_of(args), view).map_err(|error| cannot(&error))?;
    top.draw().map_err(|error| cannot(&error))?;
    let mut source = ReplaySource::new(recording, &top.state().view_query())?;
    source.go_to(at)?;
    let begun = source.at();
    let ended = top.run(&mut source).await.map_err(|error| cannot(&error))?;
    // The recording of this node may have ended before the others.
    if source.at() != begun {
        feed.go_to(source.at())?;
    }
    Ok(Some(ended))
}

/// The recordings of the nodes of a set; a node without one has none.
fn files(file: &Path, set: &str) -> Result<BTreeMap<String, Option<PathBuf>>, Failure> {
    let found = recorded_nodes(file)?;
    let all: BTreeSet<String> = found.keys().cloned().collect();
    let names = expand(set, &all).map_err(|why| Failure::usage(format!("--nodes: {why}")))?;
    if names.is_disjoint(&all) {
        let of = match all.is_empty() {
            true => format!("there is no file {}.NODE", file.display()),
            false => format!("there are those of {}", fold(all.iter().map(String::as_str))),
        };
        return Err(Failure::usage(format!("--nodes: no recording of {set:?}: {of}")));
    }
    Ok(names.into_iter().map(|node| (node.clone(), found.get(&node).cloned())).collect())
}

/// The files FILE.NODE by node, without older ones of a rotation, FILE.NODE.1.
fn recorded_nodes(file: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let folder = match file.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        None => Path::new("."),
        Some(parent) => parent,
    };
    let beginning = file.file_name().and_then(|it| it.to_str()).map(|it| format!("{it}."));
    let named = || Failure::usage(format!("--replay: {} names no file", file.display()));
    let beginning = beginning.ok_or_else(named)?;
    let cannot = |why: std::io::Error| {
        Failure::failed(format!("cannot read the folder {}: {why}", folder.display()))
    };
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().and_then(|it| it.to_str());
        let node = name.and_then(|it| it.strip_prefix(&beginning)).filter(|it| !it.is_empty());
        if let Some(node) = node.map(str::to_owned) {
            found.insert(node, path);
        }
    }
    let names: BTreeSet<String> = found.keys().cloned().collect();
    let is_older = |node: &str| {
        let split = node.rsplit_once('.');
        split.is_some_and(|(of, number)| names.contains(of) && number.parse::<u32>().is_ok())
    };
    found.retain(|node, _| !is_older(node));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_nodes_without_older_ones() {
        let folder = std::env::temp_dir().join(format!("monitor-top-nodes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in ["a.mon.n1", "a.mon.n1.1", "a.mon.n2.site", "b.mon.n3", "a.mon", "a.mon."] {
            std::fs::write(folder.join(name), "").expect("a file");
        }
        let file = folder.join("a.mon");
        let of = |set: &str| {
            files(&file, set).map(|all| {
                let is_there = |(node, path): (String, Option<PathBuf>)| (node, path.is_some());
                all.into_iter().map(is_there).collect::<Vec<_>>()
            })
        };
        let there = |name: &str, is_there| (name.to_owned(), is_there);
        assert_eq!(of("@*").ok(), Some(vec![there("n1", true), there("n2.site", true)]));
        assert_eq!(of("n[1,3]").ok(), Some(vec![there("n1", true), there("n3", false)]));
        let why = of("n3").expect_err("none").message;
        assert_eq!(why, "--nodes: no recording of \"n3\": there are those of n1,n2.site");
        let none = files(&folder.join("c.mon"), "@*").expect_err("none").message;
        assert!(none.contains("there is no file"), "{none}");
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
}
