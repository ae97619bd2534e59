//! Rules that name the group of a process: the first one that it fits.
//!
//! In: rules as the administrator writes them, and processes whose texts are filled as far as the
//! rules look at them. Out: names. A name may use what a pattern names: `"py:${script}"`.
//! A process is asked again only when something of it has changed at which rules look.

use monitor_model::field::ProcessField;
use monitor_model::id::Identity;
use monitor_model::sample::Process;
use regex_lite::Regex;
use std::collections::HashMap;
use std::sync::Arc;

/// Fields that a rule can look at.
pub const RULE_FIELDS: [ProcessField; 5] = [
    ProcessField::Comm,
    ProcessField::Cmdline,
    ProcessField::Cgroup,
    ProcessField::User,
    ProcessField::Job,
];

/// A rule as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// The name of the group.
    pub name: String,
    /// Fields, and the pattern that each must fit.
    pub patterns: Vec<(ProcessField, String)>,
}

/// All of them, in their order.
#[derive(Debug, Default)]
pub struct GroupRules {
    rules: Vec<Rule>,
    known: HashMap<Identity, (Seen, Option<Arc<str>>)>,
}

#[derive(Debug)]
struct Rule {
    name: String,
    patterns: Vec<(ProcessField, Regex)>,
}

/// What rules look at, as it was.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    comm: [u8; 16],
    texts: [Option<Arc<str>>; 4],
}

impl GroupRules {
    /// Of what is written, or why a pattern is none.
    pub fn from_specs(written: &[RuleSpec]) -> Result<Self, String> {
        let rule = |it: &RuleSpec| {
            let compile = |(field, text): &(ProcessField, String)| {
                let regex = Regex::new(text).map_err(|why| format!("{text:?}: {why}"))?;
                Ok::<_, String>((*field, regex))
            };
            let patterns = it.patterns.iter().map(compile).collect::<Result<_, _>>()?;
            Ok::<_, String>(Rule { name: it.name.clone(), patterns })
        };
        let rules = written.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Self { rules, known: HashMap::new() })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Fields at which any of them looks.
    pub fn fields(&self) -> impl Iterator<Item = ProcessField> {
        self.rules.iter().flat_map(|it| &it.patterns).map(|(field, _)| *field)
    }

    /// The group of a process; absent if no rule fits it.
    pub fn name(&mut self, process: &Process) -> Option<Arc<str>> {
        if self.rules.is_empty() {
            return None;
        }
        let text = &process.text;
        let texts = [&text.cmdline, &text.cgroup, &text.user, &text.job].map(Clone::clone);
        let seen = Seen { comm: process.comm, texts };
        if let Some((_, name)) = self.known.get(&process.id).filter(|it| it.0 == seen) {
            return name.clone();
        }
        let name = self.rules.iter().find_map(|it| it.name(process)).map(Arc::from);
        self.known.insert(process.id, (seen, name.clone()));
        name
    }

    /// Forgets all but these.
    pub fn retain(&mut self, there: impl Fn(&Identity) -> bool) {
        self.known.retain(|id, _| there(id));
    }
}

impl Rule {
    /// Its name for a process that fits every pattern.
    fn name(&self, process: &Process) -> Option<String> {
        let mut name = self.name.clone();
        for (field, pattern) in &self.patterns {
            let comm = process.comm();
            let text = match field {
                ProcessField::Comm => &comm,
                ProcessField::Cmdline => process.text.cmdline.as_deref()?,
                ProcessField::Cgroup => process.text.cgroup.as_deref()?,
                ProcessField::User => process.text.user.as_deref()?,
                _ => process.text.job.as_deref()?,
            };
            let found = pattern.captures(text)?;
            for part in pattern.capture_names().flatten() {
                let value = found.name(part).map_or("", |it| it.as_str());
                name = name.replace(&format!("${{{part}}}"), value);
            }
        }
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(written: &[(&str, &[(ProcessField, &str)])]) -> Result<GroupRules, String> {
        let rule = |(name, patterns): &(&str, &[(ProcessField, &str)])| RuleSpec {
            name: (*name).into(),
            patterns: patterns.iter().map(|(field, it)| (*field, (*it).into())).collect(),
        };
        GroupRules::from_specs(&written.iter().map(rule).collect::<Vec<_>>())
    }

    fn process(comm: &str, cmdline: Option<&str>) -> Process {
        let mut it = Process::default();
        it.comm[..comm.len()].copy_from_slice(comm.as_bytes());
        it.text.cmdline = cmdline.map(Into::into);
        it
    }

    #[test]
    fn the_first_rule_that_fits_names_the_group_and_may_use_what_it_found() {
        let script =
            &[(ProcessField::Comm, "^python"), (ProcessField::Cmdline, r"(?P<script>[^/ ]+)\.py")];
        let rest = &[(ProcessField::Comm, "py")];
        let mut rules = rules(&[("py:${script}", script), ("other", rest)]).expect("patterns");
        let mut name = |it: &Process| rules.name(it).map(|it| it.to_string());
        assert_eq!(name(&process("python3", Some("python3 /a/train.py"))), Some("py:train".into()));
        assert_eq!(name(&process("python3", Some("python3 -i"))), Some("other".into()));
        assert_eq!(name(&process("sh", None)), None);
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        let why = rules(&[("x", &[(ProcessField::Comm, "(")])]).expect_err("it is open");
        assert!(why.starts_with("\"(\": "), "{why}");
    }
}
