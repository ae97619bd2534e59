//! `monitor top`: the screen, with samples of the daemon, a local backend or a recording; or the
//! whole cluster, live or of recordings.

pub mod args;
mod cluster;
mod daemon_source;
mod node_source;
mod recorded_cluster;
mod recorded_node;
mod recordings_feed;
mod rollup_source;
mod rule;
mod terminal;

use super::client::{find, runtime};
use super::exit::{Exit, Failure};
use super::log;
use super::plan::condition;
use args::TopArgs;
use daemon_source::DaemonSource;
use monitor_loader::select;
use monitor_model::field::ProcessField;
use monitor_recording::Recording;
use monitor_sampling::{fields, plan};
use monitor_tui::local_source::LocalSource;
use monitor_tui::replay_source::ReplaySource;
use monitor_tui::run::{Ended, TerminalSession, Top};
use monitor_tui::state::{Condition, PERIODS, View};
use monitor_tui::view_query::ViewQuery;
use rule::{RuleSource, WithRules};
use std::io::IsTerminal;
use std::time::Duration;
use terminal::{cannot, theme_of};

/// Runs the screen until the user quits.
pub fn top(args: &TopArgs) -> Result<Exit, Failure> {
    let mut view = view(args)?;
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let why = "top needs a terminal: use monitor watch or monitor sample";
        return Err(Failure::usage(why));
    }
    log::start(0);
    let file = args.replay.as_deref();
    let recording = file.filter(|_| args.nodes.is_none()).map(Recording::open).transpose()?;
    if let (Some(recording), None) = (&recording, args.every) {
        let every = Duration::from_nanos(recording.header().every_ns);
        view.period = every.clamp(PERIODS[0], PERIODS[1]);
    }
    let ended = runtime()?.block_on(async {
        match (&args.nodes, file) {
            (Some(set), Some(file)) => {
                return recorded_cluster::top_recordings(args, view, (file, set)).await;
            }
            (Some(set), None) => return cluster::top_cluster(args, view, set).await,
            (None, _) => {}
        }
        let client = match recording {
            Some(_) => None,
            None => find(&args.reader).await?,
        };
        let mut session = TerminalSession::open().map_err(|error| cannot(&error))?;
        let top = Top::new(&mut session, theme_of(args), view);
        let mut top = top.map_err(|error| cannot(&error))?;
        top.draw().map_err(|error| cannot(&error))?;
        let query = top.state().view_query();
        let ended = match (recording, client) {
            (Some(recording), _) => top.run(&mut ReplaySource::new(recording, &query)?).await,
            (None, Some(client)) => {
                let rules = RuleSource::Daemon(args.reader.socket.clone());
                top.run(&mut WithRules::new(DaemonSource::new(client, query), rules)).await
            }
            (None, None) => {
                let rules = RuleSource::Local(args.reader.backend);
                top.run(&mut WithRules::new(local(args, query)?, rules)).await
            }
        };
        ended.map_err(|error| cannot(&error))
    });
    match ended? {
        Ended::Quit | Ended::Gone => Ok(Exit::Ok),
        Ended::Interrupted => Ok(Exit::Interrupted),
        Ended::Over(why) => Err(Failure::failed(why)),
    }
}

/// Opens a local backend. Needs a running event loop.
fn local(args: &TopArgs, query: ViewQuery) -> Result<LocalSource, Failure> {
    let capabilities = plan::Plan::from_request(&query.request())?.capabilities;
    let opened = select::open(args.reader.backend, &capabilities, 0)?;
    LocalSource::new(opened, query).map_err(|error| cannot(&error))
}

/// The view that the arguments select.
fn view(args: &TopArgs) -> Result<View, Failure> {
    let mut view = View { tree: args.tree, group_by: args.group_by, ..View::default() };
    view.period = args.every.unwrap_or(view.period).clamp(PERIODS[0], PERIODS[1]);
    if let Some(sort) = &args.sort {
        view.order = plan::order(sort)?;
    }
    if !args.fields.is_empty() {
        let named = fields::named(&args.fields, monitor_model::scope::Scope::Processes)?;
        view.columns = Some(named.processes);
    }
    if let Some(text) = &args.filter {
        let expression = condition(text)?;
        view.condition = Some(Condition { text: text.clone(), expression });
    }
    if view.group_by.is_some() && view.tree {
        return Err(Failure::usage("--tree and --group-by cannot be combined: choose one"));
    }
    let shown = view.columns.as_deref().unwrap_or_default();
    if shown.contains(&ProcessField::Tid) {
        let why = "tid is a field of threads: the details of a process list its threads";
        return Err(Failure::usage(why));
    }
    Ok(view)
}
