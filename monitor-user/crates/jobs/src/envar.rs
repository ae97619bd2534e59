//! What environment directives make of an environment, step by step.
//!
//! In: an environment, directives of the job and of its application. Out: the environment after
//! them, and a step for each, which says what it did. Directives are executed strictly in the order
//! given, those of the job first; they are neither merged nor regrouped, so each sees what the ones
//! before it have left (prrte, pull requests 2581 and 2683).

use crate::directive::{Directive, DirectiveKind};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// An environment: variables with their values, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Which directives a step is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Those of the whole job, which are first.
    Job,
    /// Those of the application.
    Application,
}

monitor_model::names! { Level { Job "job", Application "application" } }

/// What a directive did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its level.
    pub level: Level,
    /// The directive.
    pub directive: Directive,
    /// The variables that it changed, in the order of the environment.
    pub changes: Vec<Change>,
    /// What it did, in words.
    pub effect: Effect,
}

/// The change of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value before; absent if it was not set.
    pub before: Option<Vec<u8>>,
    /// Its value after; absent if it is not set.
    pub after: Option<Vec<u8>>,
}

/// The effect of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The variable was created.
    Created,
    /// Its value was replaced.
    Replaced,
    /// `add`: it was set already.
    Kept,
    /// Variables were removed.
    Removed,
    /// `unset`: it was not set.
    WasNotSet,
    /// The value was added to the list.
    Extended,
    /// The list was empty: the value is all of it, without a separator.
    WasEmpty,
    /// The value was in the list, and is its first element now.
    MovedFirst,
    /// The list is as it was: the value is empty, or is the first element already.
    Unchanged,
}

monitor_model::names! { Effect {
    Created "created", Replaced "replaced", Kept "kept", Removed "removed",
    WasNotSet "was-not-set", Extended "extended", WasEmpty "was-empty",
    MovedFirst "moved-first", Unchanged "unchanged",
} }

impl Effect {
    /// The effect in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Created => "was not set: created",
            Self::Replaced => "replaced",
            Self::Kept => "is set: kept",
            Self::Removed => "removed",
            Self::WasNotSet => "was not set: nothing to remove",
            Self::Extended => "added to the list",
            Self::WasEmpty => "was empty: no separator",
            Self::MovedFirst => "first, other occurrences removed",
            Self::Unchanged => "unchanged",
        }
    }
}

impl Environment {
    /// From the bytes of `/proc/<pid>/environ`: `NAME=value`, each terminated by NUL. The first of
    /// two definitions counts, as for getenv(3); what has no `=` is no variable.
    pub fn from_proc_environ(bytes: &[u8]) -> Self {
        Self::from_entries(bytes.split(|&byte| byte == 0))
    }

    /// From lines `NAME=value`, as env(1) prints them.
    pub fn from_lines(bytes: &[u8]) -> Self {
        Self::from_entries(bytes.split(|&byte| byte == b'\n'))
    }

    fn from_entries<'e>(entries: impl Iterator<Item = &'e [u8]>) -> Self {
        let mut it = Self::default();
        for entry in entries {
            let Some(at) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            if !name.is_empty() && it.get(name).is_none() {
                it.variables.push((name.to_vec(), value.to_vec()));
            }
        }
        it
    }

    /// The value of a variable.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.variables.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_slice())
    }

    /// All variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// The same, for a command.
    pub fn os_variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)))
    }

    /// Executes directives in the order given, those of the job first. Returns a step for each.
    pub fn execute(&mut self, job: &[Directive], application: &[Directive]) -> Vec<Step> {
        let job = job.iter().map(|it| (Level::Job, it));
        let all = job.chain(application.iter().map(|it| (Level::Application, it)));
        all.map(|(level, directive)| self.step(level, directive)).collect()
    }

    fn step(&mut self, level: Level, directive: &Directive) -> Step {
        let (changes, effect) = match directive.kind() {
            DirectiveKind::Unset => self.unset(directive.name()),
            _ => self.assign(directive),
        };
        Step { level, directive: directive.clone(), changes, effect }
    }

    fn assign(&mut self, directive: &Directive) -> (Vec<Change>, Effect) {
        let before = self.get(directive.name()).map(<[u8]>::to_vec);
        let (after, effect) = outcome(directive, before.as_deref());
        let Some(after) = after else { return (Vec::new(), effect) };
        let name = directive.name().to_vec();
        match self.variables.iter_mut().find(|(other, _)| *other == name) {
            Some((_, value)) => value.clone_from(&after),
            None => self.variables.push((name.clone(), after.clone())),
        }
        (vec![Change { name, before, after: Some(after) }], effect)
    }

    /// Removes a variable, or all that begin with the prefix before a `*`.
    fn unset(&mut self, pattern: &[u8]) -> (Vec<Change>, Effect) {
        let is_meant = |name: &[u8]| match pattern.strip_suffix(b"*") {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        let removed: Vec<_> = self.variables.extract_if(.., |(name, _)| is_meant(name)).collect();
        let effect = if removed.is_empty() { Effect::WasNotSet } else { Effect::Removed };
        let change = |(name, value)| Change { name, before: Some(value), after: None };
        (removed.into_iter().map(change).collect(), effect)
    }
}

/// The value that a directive gives its variable, if it changes it.
fn outcome(directive: &Directive, before: Option<&[u8]>) -> (Option<Vec<u8>>, Effect) {
    let value = directive.value();
    let Some(before) = before else { return (Some(value.to_vec()), Effect::Created) };
    if directive.kind() == DirectiveKind::Add {
        return (None, Effect::Kept);
    }
    if directive.kind() != DirectiveKind::Set {
        // An empty element of a list such as PATH is the working directory: none is made.
        if value.is_empty() {
            return (None, Effect::Unchanged);
        }
        if before.is_empty() {
            return (Some(value.to_vec()), Effect::WasEmpty);
        }
    }
    let joined = |parts: [&[u8]; 2]| parts.join(&directive.separator());
    let (after, effect) = match directive.kind() {
        DirectiveKind::Prepend => (joined([value, before]), Effect::Extended),
        DirectiveKind::Append => (joined([before, value]), Effect::Extended),
        DirectiveKind::First => first(value, before, directive.separator()),
        DirectiveKind::Set | DirectiveKind::Add | DirectiveKind::Unset => {
            (value.to_vec(), Effect::Replaced)
        }
    };
    if after == before { (None, Effect::Unchanged) } else { (Some(after), effect) }
}

/// The list with the elements of `value` first, and nowhere else.
fn first(value: &[u8], before: &[u8], separator: u8) -> (Vec<u8>, Effect) {
    let is_separator = |byte: &u8| *byte == separator;
    let moved: Vec<&[u8]> = value.split(is_separator).collect();
    let all: Vec<&[u8]> = before.split(is_separator).collect();
    let rest: Vec<&[u8]> = all.iter().copied().filter(|it| !moved.contains(it)).collect();
    let effect = if rest.len() < all.len() { Effect::MovedFirst } else { Effect::Extended };
    let parts: Vec<&[u8]> = [value].into_iter().chain(rest).collect();
    (parts.join(&separator), effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(written: &[&str]) -> Vec<Directive> {
        written.iter().map(|it| Directive::parse(it).expect("a directive")).collect()
    }

    fn after(from: &str, job: &[&str], application: &[&str]) -> (Environment, Vec<Step>) {
        let mut environment = Environment::from_lines(from.as_bytes());
        let steps = environment.execute(&directives(job), &directives(application));
        (environment, steps)
    }

    /// The value of `FOO` after these.
    #[track_caller]
    fn check(from: &str, written: &[&str], want: Option<&str>) {
        // The same of the job, of the application, and of both.
        for at in 0..=written.len() {
            let (environment, _) = after(from, &written[..at], &written[at..]);
            let got = environment.get(b"FOO").map(|it| String::from_utf8_lossy(it).into_owned());
            assert_eq!(got.as_deref(), want, "{written:?}");
        }
    }

    #[test]
    fn directives_are_executed_strictly_in_order() {
        check("", &["prepend:FOO=x", "set:FOO=1"], Some("1"));
        check("", &["set:FOO=1", "prepend:FOO=x"], Some("x:1"));
        check("", &["set:FOO=1", "prepend:FOO=x", "set:FOO=2"], Some("2"));
        check("", &["append:FOO=a", "append:FOO=b"], Some("a:b"));
        check("", &["prepend:FOO=a", "prepend:FOO=b"], Some("b:a"));
        check("FOO=9", &["unset:FOO", "add:FOO=1"], Some("1"));
        check("FOO=9", &["add:FOO=1"], Some("9"));
    }

    #[test]
    fn directives_of_the_job_come_before_those_of_the_application() {
        let (environment, steps) = after("", &["set:P=/a"], &["prepend:P=/b"]);
        assert_eq!(environment.get(b"P"), Some(&b"/b:/a"[..]));
        let levels: Vec<_> = steps.iter().map(|it| it.level).collect();
        assert_eq!(levels, [Level::Job, Level::Application]);
        // A set of the job does not override the application's.
        let (environment, _) = after("", &["set:P=job"], &["set:P=app"]);
        assert_eq!(environment.get(b"P"), Some(&b"app"[..]));
    }

    #[test]
    fn an_empty_value_gets_no_separator() {
        check("FOO=", &["prepend:FOO=x"], Some("x"));
        check("FOO=", &["append:FOO=x"], Some("x"));
        check("FOO=", &["first:FOO=x"], Some("x"));
        check("FOO=a", &["append:FOO="], Some("a"));
        check("", &["append:FOO="], Some(""));
    }

    #[test]
    fn first_removes_the_other_occurrences() {
        check("FOO=a:x:b:x", &["first:FOO=x"], Some("x:a:b"));
        check("FOO=a:b", &["first:FOO=x"], Some("x:a:b"));
        check("", &["first:FOO=x"], Some("x"));
        check("FOO=x", &["first:FOO=x"], Some("x"));
        check("FOO=xx:a", &["first:FOO=x"], Some("x:xx:a"));
        check("FOO=a;b;a", &["first:FOO[;]=b"], Some("b;a;a"));
        check("FOO=a:b:c", &["first:FOO=c:a"], Some("c:a:b"));
    }

    #[test]
    fn a_star_unsets_by_prefix_and_names_match_exactly() {
        check("FOO=1\nFOOD=2", &["unset:FO*"], None);
        check("FOO=1\nFOOD=2", &["unset:FOOD"], Some("1"));
        let (environment, steps) = after("FOOD=1\nFOO=2\nBAR=3", &["unset:FOO*"], &[]);
        assert_eq!(environment, Environment::from_lines(b"BAR=3"));
        let names: Vec<_> = steps[0].changes.iter().map(|it| it.name.as_slice()).collect();
        assert_eq!(names, [&b"FOOD"[..], b"FOO"]);
    }

    #[test]
    fn each_step_says_what_it_did() {
        let written = ["add:FOO=1", "unset:BAR", "first:FOO=b", "set:FOO=2", "prepend:FOO="];
        let (_, steps) = after("FOO=a:b", &[], &written);
        let effects: Vec<_> = steps.iter().map(|it| it.effect).collect();
        use Effect::{Kept, MovedFirst, Replaced, Unchanged, WasNotSet};
        assert_eq!(effects, [Kept, WasNotSet, MovedFirst, Replaced, Unchanged]);
        let change = Change {
            name: b"FOO".to_vec(),
            before: Some(b"a:b".to_vec()),
            after: Some(b"b:a".to_vec()),
        };
        assert_eq!(steps[2].changes, [change]);
        assert_eq!(steps[4].changes, []);
    }

    #[test]
    fn both_forms_of_an_environment_are_read() {
        let lines = Environment::from_lines(b"A=1\nB=x=y\njunk\n=z\nA=2\n");
        assert_eq!(lines, Environment::from_proc_environ(b"A=1\0B=x=y\0junk\0=z\0"));
        assert_eq!(lines.get(b"B"), Some(&b"x=y"[..]));
        assert_eq!(lines.variables().count(), 2);
    }
}
