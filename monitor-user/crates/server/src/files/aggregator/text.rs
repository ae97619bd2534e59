//! The texts of an aggregator: `tree`, `desc`, `pull`, and what `ctl` says.
//!
//! In: its children. Out: one list on one line, or a line for each child. Records of children are
//! in them as the children have written them.

use super::super::event_feed::unix_ns;
use super::super::sexpr::put_word;
use super::child::{ChildState, Missing};
use super::record::put_head;
use super::settings::PushMode;
use super::table::Aggregator;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The columns of `tree`.
const HEADER: &str = "((name kind addr state age_ms lag_us lost ctl))\n";

/// `tree`: a line for each child, after a header. What is not known is `''`.
pub fn tree(aggregator: &Aggregator) -> String {
    let mut out = HEADER.to_owned();
    for child in aggregator.children() {
        let state = child.state();
        let age = state.record.as_ref().ok().map(|it| milliseconds(it.at.elapsed()));
        let number = |it: Option<u64>| it.map(|it| it.to_string()).unwrap_or_default();
        let word = match &state.record {
            Ok(_) => "up",
            Err(why) => why.word(),
        };
        let _ = write!(out, "({}", child.name);
        for it in [
            state.kind.map_or("", |it| it.word()),
            &child.address.at.written_address(),
            word,
            &number(age),
            &number(state.lag_us),
            &state.lost.to_string(),
            &state.passed,
        ] {
            out.push(' ');
            put_word(&mut out, it);
        }
        out.push_str(")\n");
    }
    out
}

/// `desc`: the descriptions of children, each once, behind the names of those that have it.
pub fn description(aggregator: &Aggregator) -> String {
    let mut of: BTreeMap<Bytes, Vec<Arc<str>>> = BTreeMap::new();
    for child in aggregator.children() {
        let description = child.state().description;
        if !description.is_empty() {
            of.entry(description).or_default().push(Arc::clone(&child.name));
        }
    }
    let mut all: Vec<_> = of.into_iter().collect();
    all.sort_by(|one, other| one.1.cmp(&other.1));
    let mut out = String::new();
    put_head(&mut out, &aggregator.name, unix_ns());
    for (description, names) in all {
        let _ =
            write!(out, " (of ({}) {})", names.join(" "), String::from_utf8_lossy(&description));
    }
    out.push_str(")\n");
    out
}

/// `pull`: the last record of each child, or why there is none.
pub fn last_records(aggregator: &Aggregator) -> String {
    records(aggregator, |state| match &state.record {
        Ok(it) => Ok(it.text.clone()),
        Err(why) => Err(*why),
    })
}

/// `fresh`: the records of a round; a child that has none of it is missing.
pub fn records_of_round(aggregator: &Aggregator, round: u64) -> String {
    records(aggregator, |state| match &state.record {
        Ok(it) if it.round >= round => Ok(it.text.clone()),
        Ok(_) => Err(Missing::Timeout),
        Err(why) if state.round >= round || matches!(why, Missing::Down(_)) => Err(*why),
        Err(_) => Err(Missing::Timeout),
    })
}

fn records(aggregator: &Aggregator, of: impl Fn(&ChildState) -> Result<Bytes, Missing>) -> String {
    let mut present = Vec::new();
    let mut missing = String::new();
    let mut ages = String::new();
    for child in aggregator.children() {
        let state = child.state();
        match of(&state) {
            Ok(text) => {
                let age = state.record.as_ref().map_or(0, |it| milliseconds(it.at.elapsed()));
                let _ = write!(ages, " ({} {age})", child.name);
                present.push(text);
            }
            Err(why) => {
                let _ = write!(missing, " ({} {})", child.name, why.word());
            }
        }
    }
    let bytes: usize = present.iter().map(|it| it.len() + 1).sum();
    let mut out = String::with_capacity(bytes + ages.len() + missing.len() + 128);
    put_head(&mut out, &aggregator.name, unix_ns());
    let _ = write!(out, " (have {}{ages}) (missing{missing})", present.len());
    for text in present {
        out.push(' ');
        // It was checked when it arrived.
        out.push_str(&String::from_utf8_lossy(&text));
    }
    out.push_str(")\n");
    out
}

/// What `ctl` says.
pub fn settings(aggregator: &Aggregator) -> String {
    let settings = aggregator.settings();
    let interval = milliseconds(settings.interval);
    let mode = match settings.mode {
        PushMode::Pull => format!("pull {interval}"),
        PushMode::Push => "push".to_owned(),
    };
    let mut out = format!("(agg {} (children {})", aggregator.name, aggregator.children().len());
    let deadline = milliseconds(settings.deadline);
    let _ = write!(out, " (mode {mode}) (deadline {deadline}) (depth {})", settings.depth);
    aggregator.put_passed(&mut out);
    out.push_str(")\n");
    out
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
