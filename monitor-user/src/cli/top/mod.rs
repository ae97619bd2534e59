//! `monitor top`: the screen, fed by the daemon of this node, or by a backend here.

mod relayed;
mod rule;
pub mod words;

use self::relayed::Relayed;
use self::rule::Ruled;
use self::words::Top as Words;
use super::client::{found, runtime};
use super::exit::{Exit, Failure};
use super::log;
use monitor_backends::select;
use monitor_model::field::ProcessField;
use monitor_recording::Recording;
use monitor_sampling::expression;
use monitor_sampling::{fields, plan};
use monitor_tui::demand::Demand;
use monitor_tui::local::Local;
use monitor_tui::look::{Look, Theme};
use monitor_tui::played::Played;
use monitor_tui::run::{Ended, Top};
use monitor_tui::state::{Condition, PACE, View};
use std::io::IsTerminal;
use std::time::Duration;

/// Shows the screen until somebody has enough.
pub fn top(words: &Words) -> Result<Exit, Failure> {
    let mut view = view(words)?;
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let why = "top needs a terminal for keys and screen: use monitor watch or sample";
        return Err(Failure::usage(why));
    }
    log::start(0);
    let recording = words.replay.as_deref().map(Recording::open).transpose()?;
    if let (Some(recording), None) = (&recording, words.every) {
        let every = Duration::from_nanos(recording.header().every_ns);
        view.every = every.clamp(PACE[0], PACE[1]);
    }
    let ended = runtime()?.block_on(async {
        let client = match recording {
            Some(_) => None,
            None => found(&words.reader).await?,
        };
        let mut top = Top::open(look(words), view).map_err(|error| cannot(&error))?;
        top.draw().map_err(|error| cannot(&error))?;
        let demand = top.state().demand();
        let ended = match (recording, client) {
            (Some(recording), _) => top.run(&mut Played::new(recording, &demand)?).await,
            (None, Some(client)) => {
                let feed = Relayed::new(client, demand);
                top.run(&mut Ruled::relayed(feed, &words.reader)).await
            }
            (None, None) => {
                let feed = local(words, demand)?;
                top.run(&mut Ruled::local(feed, &words.reader)).await
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

/// A backend here. Needs a running event loop.
fn local(words: &Words, demand: Demand) -> Result<Local, Failure> {
    let capabilities = plan::Plan::of(&demand.request())?.capabilities;
    let opened = select::open(words.reader.backend, &capabilities, 0)?;
    Local::new(opened, demand).map_err(|error| cannot(&error))
}

fn cannot(error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

/// What the words ask to see.
fn view(words: &Words) -> Result<View, Failure> {
    let mut view = View { tree: words.tree, by: words.group_by, ..View::default() };
    view.every = words.every.unwrap_or(view.every).clamp(PACE[0], PACE[1]);
    if let Some(sort) = &words.sort {
        view.order = plan::order(sort)?;
    }
    if !words.fields.is_empty() {
        let named = fields::named(&words.fields, monitor_model::scope::Scope::Processes)?;
        view.columns = Some(named.processes);
    }
    if let Some(text) = &words.filter {
        let expression = expression::parse(text).map_err(|fault| {
            let place = text[..fault.at].chars().count() + 1;
            Failure::usage(format!("--filter, column {place}: {}", fault.message))
        })?;
        view.condition = Some(Condition { text: text.clone(), expression });
    }
    if view.by.is_some() && view.tree {
        return Err(Failure::usage("--tree is of processes, --group-by of many: choose one"));
    }
    let shown = view.columns.as_deref().unwrap_or_default();
    if shown.contains(&ProcessField::Tid) {
        return Err(Failure::usage("tid is of threads: the details of a process list them"));
    }
    Ok(view)
}

/// Colours as asked for, else as the environment tells; signs as the locale can have them.
fn look(words: &Words) -> Look {
    let var = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let theme = match words.theme.as_str() {
        "dark" => Theme::Dark,
        "light" => Theme::Light,
        "plain" => Theme::Plain,
        _ if var("NO_COLOR").is_some() || var("TERM").as_deref() == Some("dumb") => Theme::Plain,
        _ => background(var("COLORFGBG").as_deref()),
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(var).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    let ascii = words.ascii || !(locale.contains("utf-8") || locale.contains("utf8"));
    Look { theme, ascii }
}

/// `COLORFGBG` ends with the colour of the background: 7 and 15 are white.
fn background(colours: Option<&str>) -> Theme {
    match colours.and_then(|it| it.rsplit(';').next()) {
        Some("7" | "15") => Theme::Light,
        _ => Theme::Dark,
    }
}
