//! Groups of ClusterShell in `--nodes`: `@gpu`, `@rack:r[1-3]`.
//!
//! In: the text of a set, the configuration of ClusterShell of this user. Out: the text with the
//! nodes of each group, which a service understands. Programs of the configuration are executed
//! here, as the user of the command: a service never reads that configuration. Sets without groups
//! read no file.

mod config;
mod source;
#[cfg(test)]
mod tests;
mod yaml;

use config::Groups;
use monitor_cluster::node_set::{GroupLookup, resolve_groups};
use monitor_model::name::nearest;
use source::{GroupAnswer, GroupSource};
use std::cell::OnceCell;

/// The value of `--nodes`, with the nodes of its groups.
///
/// # Errors
/// The configuration cannot be read, or a group is not known.
pub fn node_set(text: &str) -> Result<String, String> {
    let lookup = ConfiguredGroups::default();
    resolve_groups(text, &lookup).map_err(|error| error.to_string())
}

/// The groups of the configuration, which is read for the first one.
#[derive(Default)]
struct ConfiguredGroups(OnceCell<Result<Groups, String>>);

impl GroupLookup for ConfiguredGroups {
    fn text(&self, source: Option<&str>, group: &str) -> Result<String, String> {
        let groups = self.0.get_or_init(Groups::read).as_ref().map_err(Clone::clone)?;
        let source = groups.source(source)?;
        if group == "*" { source.all() } else { text(source, group) }
    }
}

fn text(source: &GroupSource, group: &str) -> Result<String, String> {
    let unknown = |names: &[String]| {
        let near = nearest(names.iter().map(String::as_str), group);
        let near = near.map(|it| format!(": the nearest is {it:?}")).unwrap_or_default();
        format!("source {:?} has no such group{near}", source.name)
    };
    match source.map(group) {
        GroupAnswer::Text(text) if !text.trim().is_empty() => Ok(text),
        // A program prints nothing for a group that it does not know, too.
        GroupAnswer::Text(text) => match source.list() {
            GroupAnswer::Text(names) if names.iter().any(|it| it == group) => Ok(text),
            GroupAnswer::Text(names) => Err(unknown(&names)),
            GroupAnswer::None => Err(format!("source {:?} has no nodes of it", source.name)),
            GroupAnswer::Failed(why) => Err(why),
        },
        GroupAnswer::None => match source.list() {
            GroupAnswer::Text(names) => Err(unknown(&names)),
            GroupAnswer::None => Err(unknown(&[])),
            GroupAnswer::Failed(why) => Err(why),
        },
        GroupAnswer::Failed(why) => match source.list() {
            GroupAnswer::Text(names) if !names.iter().any(|it| it == group) => Err(unknown(&names)),
            _ => Err(why),
        },
    }
}
