//! A source of groups: the groups of a file, or programs that print them.
//!
//! In: the name of a group. Out: its text. The programs are lines for `sh`, executed in the folder
//! of their configuration, as ClusterShell executes them; their standard error is that of the
//! command, and what they print is used for this command alone.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The most that a program may print, in bytes.
const MAX_OUTPUT: u64 = 16 << 20;

/// The group of a file that has all nodes of the source.
const ALL: &str = "all";

/// A source of groups.
#[derive(Debug)]
pub struct GroupSource {
    /// Its name, as in `@NAME:group`.
    pub name: String,
    /// Where its groups are from.
    pub origin: Origin,
}

/// Where groups are from.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file: names of groups, and their sets.
    File(BTreeMap<String, String>),
    /// Programs.
    Upcalls(Upcalls),
}

/// Lines for `sh` in which `$GROUP`, `$SOURCE` and `$CFGDIR` are replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Upcalls {
    /// Prints the nodes of a group.
    pub map: String,
    /// Prints all nodes.
    pub all: Option<String>,
    /// Prints the names of groups.
    pub list: Option<String>,
    /// Where they are executed, and `$CFGDIR`.
    pub folder: PathBuf,
}

/// What a source says.
pub enum GroupAnswer<T> {
    /// What was asked for.
    Text(T),
    /// It has no such group, or no program for the question.
    None,
    /// The program has failed, or what it printed is no text; why.
    Failed(String),
}

impl GroupSource {
    /// The nodes of a group, as a set.
    pub fn map(&self, group: &str) -> GroupAnswer<String> {
        match &self.origin {
            Origin::File(groups) => {
                groups.get(group).cloned().map_or(GroupAnswer::None, GroupAnswer::Text)
            }
            Origin::Upcalls(upcalls) => self.answer(upcalls, &upcalls.map, Some(group)),
        }
    }

    /// The names of its groups.
    pub fn list(&self) -> GroupAnswer<Vec<String>> {
        let upcalls = match &self.origin {
            Origin::File(groups) => return GroupAnswer::Text(groups.keys().cloned().collect()),
            Origin::Upcalls(upcalls) => upcalls,
        };
        let Some(list) = &upcalls.list else { return GroupAnswer::None };
        match self.answer(upcalls, list, None) {
            GroupAnswer::Text(text) => {
                GroupAnswer::Text(text.split(',').map(str::to_owned).collect())
            }
            GroupAnswer::None => GroupAnswer::None,
            GroupAnswer::Failed(why) => GroupAnswer::Failed(why),
        }
    }

    /// All nodes of the source, as a set: those of its group `all` or of its program, else those of
    /// all its groups.
    ///
    /// # Errors
    /// A program has failed, or there is none.
    pub fn all(&self) -> Result<String, String> {
        let all = match &self.origin {
            Origin::File(groups) => {
                groups.get(ALL).cloned().map_or(GroupAnswer::None, GroupAnswer::Text)
            }
            Origin::Upcalls(Upcalls { all: None, .. }) => GroupAnswer::None,
            Origin::Upcalls(upcalls) => {
                self.answer(upcalls, upcalls.all.as_deref().unwrap_or_default(), None)
            }
        };
        match all {
            GroupAnswer::Text(text) => return Ok(text),
            GroupAnswer::Failed(why) => return Err(why),
            GroupAnswer::None => {}
        }
        let missing = || format!("source {:?} has neither {ALL:?} nor \"list\"", self.name);
        let names = match self.list() {
            GroupAnswer::Text(names) => names,
            GroupAnswer::None => return Err(missing()),
            GroupAnswer::Failed(why) => return Err(why),
        };
        let mut texts = Vec::new();
        for name in names.iter().filter(|name| !name.is_empty()) {
            match self.map(name) {
                GroupAnswer::Text(text) if text.is_empty() => {}
                GroupAnswer::Text(text) => texts.push(text),
                GroupAnswer::None => return Err(missing()),
                GroupAnswer::Failed(why) => return Err(why),
            }
        }
        Ok(texts.join(","))
    }

    fn answer(&self, upcalls: &Upcalls, line: &str, group: Option<&str>) -> GroupAnswer<String> {
        let folder = upcalls.folder.to_string_lossy();
        let mut values = vec![("CFGDIR", &*folder), ("SOURCE", &self.name)];
        values.extend(group.map(|group| ("GROUP", group)));
        let line = substituted(line, &values);
        match output(&line, upcalls) {
            Ok(text) => GroupAnswer::Text(joined(&text)),
            Err(why) => GroupAnswer::Failed(format!("source {:?}: {line:?} {why}", self.name)),
        }
    }
}

/// The words of a text as one set.
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(",")
}

fn output(line: &str, upcalls: &Upcalls) -> Result<String, String> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).current_dir(&upcalls.folder);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot be executed: {error}"))?;
    let mut bytes = Vec::new();
    let read = match child.stdout.take() {
        Some(stdout) => stdout.take(MAX_OUTPUT + 1).read_to_end(&mut bytes),
        None => Ok(0),
    };
    let is_long = read.as_ref().is_ok_and(|n| u64::try_from(*n).is_ok_and(|n| n > MAX_OUTPUT));
    if is_long || read.is_err() {
        // It may go on writing; it may also have ended.
        let _ended = child.kill();
    }
    let status = child.wait().map_err(|error| format!("is not awaited: {error}"))?;
    if is_long {
        return Err(format!("has printed more than {} MiB", MAX_OUTPUT >> 20));
    }
    if let Err(error) = read {
        return Err(format!("cannot be read: {error}"));
    }
    if !status.success() {
        return Err(format!("has failed: {status}"));
    }
    String::from_utf8(bytes).map_err(|_| "has printed what is not UTF-8".to_owned())
}

/// A line with the values of `$NAME` and `${NAME}`; `$$` is a dollar. Other names are left to the
/// shell, as by `safe_substitute` of Python's `string.Template`.
pub fn substituted(line: &str, values: &[(&str, &str)]) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let found = values.iter().find_map(|(name, value)| {
            let braced = after.strip_prefix('{').and_then(|it| it.strip_prefix(name));
            let braced = braced.and_then(|it| it.strip_prefix('}'));
            let is_end = |it: &&str| !it.starts_with(|it: char| it == '_' || it.is_alphanumeric());
            let plain = || after.strip_prefix(name).filter(is_end);
            braced.or_else(plain).map(|after| (*value, after))
        });
        match found {
            Some((value, after)) => {
                out += value;
                rest = after;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_line_are_replaced_as_python_replaces_them() {
        let values = [("GROUP", "gpu"), ("SOURCE", "rack")];
        let check = |line: &str, want: &str| assert_eq!(substituted(line, &values), want, "{line}");
        check("sed -n 's/^$GROUP://p' ${SOURCE}.txt", "sed -n 's/^gpu://p' rack.txt");
        check("awk '{print $$1}' $GROUPS ${GROUP", "awk '{print $1}' $GROUPS ${GROUP");
        check("echo $HOME $", "echo $HOME $");
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let source = |map: &str| GroupSource {
            name: "site".to_owned(),
            origin: Origin::Upcalls(Upcalls {
                map: map.to_owned(),
                all: None,
                list: None,
                folder: PathBuf::from("/"),
            }),
        };
        let why = |map: &str| match source(map).map("gpu") {
            GroupAnswer::Failed(why) => why,
            GroupAnswer::Text(text) => text,
            GroupAnswer::None => "none".to_owned(),
        };
        assert_eq!(why("echo n1; echo n2 $SOURCE"), "n1,n2,site");
        assert_eq!(why("exit 3"), "source \"site\": \"exit 3\" has failed: exit status: 3");
        assert!(why("yes").ends_with("has printed more than 16 MiB"), "{}", why("yes"));
    }
}
