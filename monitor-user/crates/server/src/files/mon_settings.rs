//! What is set in `mon/ctl`, of the node or of a session: the period of samples of each category,
//! and thresholds.
//!
//! In: lines of commands. Out: the periods for opens that name none, and conditions that are
//! watched. A threshold does nothing here: `threshold_watch.rs` reports what it finds.

use super::sample_filter::{CategoryFields, Condition, DEFAULT_PERIOD, period};
use crate::lock::lock;
use monitor_control::session::{Refusal, SessionError, text_words};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Most thresholds.
const MAX_THRESHOLDS: usize = 16;

/// What is set.
pub struct MonSettings {
    /// The categories of its samples.
    known: &'static [CategoryFields],
    set: Mutex<Settings>,
}

#[derive(Default)]
struct Settings {
    /// By category; those that were set.
    periods: BTreeMap<&'static str, Duration>,
    /// Categories that samples of all categories leave out.
    disabled: BTreeSet<&'static str>,
    thresholds: Vec<Arc<Threshold>>,
    /// Watches them.
    watch: Option<AbortHandle>,
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.watch.take().iter().for_each(AbortHandle::abort);
    }
}

/// A condition, and whether it holds as far as is known.
#[derive(Debug)]
pub struct Threshold {
    /// The condition.
    pub condition: Condition,
    holds: AtomicBool,
}

impl Threshold {
    /// Whether it holds from now on; true if that is a change.
    pub fn changes_to(&self, holds: bool) -> bool {
        self.holds.swap(holds, Ordering::Relaxed) != holds
    }
}

/// What a line asks for.
#[derive(Debug, PartialEq)]
enum MonCommand {
    Nothing,
    Rate(&'static str, Duration),
    Threshold(Condition),
    Clear(String),
    Enable(&'static str),
    Disable(&'static str),
}

impl MonSettings {
    /// Nothing set, for samples with these categories.
    pub fn new(known: &'static [CategoryFields]) -> Self {
        Self { known, set: Mutex::default() }
    }

    /// The period for an open of these categories: the shortest of theirs.
    pub fn period<'c>(&self, categories: impl Iterator<Item = &'c str>) -> Duration {
        let set = lock(&self.set);
        let of = |it: &str| set.periods.get(it).copied().unwrap_or(DEFAULT_PERIOD);
        categories.map(of).min().unwrap_or(DEFAULT_PERIOD)
    }

    /// The categories.
    pub fn categories(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.known.iter().map(|it| it.0)
    }

    /// The categories of samples that have all of them; empty if none is left out.
    pub fn enabled(&self) -> Vec<&'static str> {
        let disabled = &lock(&self.set).disabled;
        let enabled = self.categories().filter(|it| !disabled.contains(it));
        if disabled.is_empty() { Vec::new() } else { enabled.collect() }
    }

    /// What a read of `mon/ctl` says.
    pub fn text(&self) -> String {
        let mut out = "(ctl".to_owned();
        for name in self.categories() {
            let _ = write!(out, " (rate {name} {})", self.period([name].into_iter()).as_millis());
        }
        let set = lock(&self.set);
        for it in &set.disabled {
            let _ = write!(out, " (disabled {it})");
        }
        for it in &set.thresholds {
            let _ = write!(out, " (threshold {})", it.condition);
        }
        out.push_str(")\n");
        out
    }

    /// Carries out a line; whether what is watched may have changed.
    ///
    /// # Errors
    ///
    /// When the line is no command, or there are too many thresholds.
    pub fn control(&self, line: &[u8]) -> Result<bool, SessionError> {
        let command = MonCommand::parse(line, self.known)?;
        let mut set = lock(&self.set);
        match command {
            MonCommand::Nothing => return Ok(false),
            MonCommand::Rate(category, period) => {
                set.periods.insert(category, period);
            }
            MonCommand::Threshold(condition) => {
                let number = condition.number();
                set.thresholds.retain(|it| it.condition.number() != number);
                if set.thresholds.len() >= MAX_THRESHOLDS {
                    let why = format!("{MAX_THRESHOLDS} thresholds are set, the limit: clear one");
                    return Err(SessionError::new(Refusal::TryAgain, why));
                }
                let holds = AtomicBool::new(false);
                set.thresholds.push(Arc::new(Threshold { condition, holds }));
            }
            MonCommand::Enable(category) => _ = set.disabled.remove(category),
            MonCommand::Disable(category) => {
                set.disabled.insert(category);
                if set.disabled.len() == self.known.len() {
                    set.disabled.remove(category);
                    let why = format!("disable: {category} is the last category: enable another");
                    return Err(SessionError::new(Refusal::Invalid, why));
                }
            }
            MonCommand::Clear(number) => {
                let before = set.thresholds.len();
                set.thresholds.retain(|it| it.condition.number() != number);
                if set.thresholds.len() == before {
                    let why = format!("clear: there is no threshold {number}");
                    return Err(SessionError::new(Refusal::Invalid, why));
                }
            }
        }
        Ok(true)
    }

    /// The thresholds, and the period in which they are watched.
    pub fn watched(&self) -> (Vec<Arc<Threshold>>, Duration) {
        let thresholds = lock(&self.set).thresholds.clone();
        let period = self.period(thresholds.iter().map(|it| it.condition.category.as_str()));
        (thresholds, period)
    }

    /// Another task watches; the one before is ended.
    pub fn set_watch(&self, watch: Option<AbortHandle>) {
        let before = std::mem::replace(&mut lock(&self.set).watch, watch);
        before.iter().for_each(AbortHandle::abort);
    }
}

impl MonCommand {
    fn parse(line: &[u8], known: &[CategoryFields]) -> Result<Self, SessionError> {
        let invalid = |why: String| SessionError::new(Refusal::Invalid, why);
        let words = text_words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let named = |command: &str, category: &str| {
            let name = known.iter().find(|it| it.0 == category).map(|it| it.0);
            let absent = || format!("{command}: {category:?} is no category of mon/desc");
            name.ok_or_else(|| invalid(absent()))
        };
        match *words.as_slice() {
            [] => Ok(Self::Nothing),
            ["enable", category] => named("enable", category).map(Self::Enable),
            ["disable", category] => named("disable", category).map(Self::Disable),
            ["rate", category, milliseconds] => {
                let name = named("rate", category)?;
                let period = period(milliseconds).map_err(|why| invalid(format!("rate: {why}")))?;
                Ok(Self::Rate(name, period))
            }
            ["threshold", number, comparison, bound] => {
                Condition::parse((comparison, number, bound), known)
                    .map(Self::Threshold)
                    .map_err(|why| invalid(format!("threshold: {why}")))
            }
            ["clear", number] => Ok(Self::Clear(number.to_owned())),
            _ => {
                let shown: String = words.join(" ").chars().take(64).collect();
                Err(invalid(format!(
                    "{shown:?} is no command: expected rate CATEGORY MS, threshold CATEGORY.NUMBER \
                     COMPARISON BOUND, clear CATEGORY.NUMBER, enable CATEGORY, or disable CATEGORY"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::{Category, CpuField, NodeField};

    const KNOWN: &[CategoryFields] = &[("node", NodeField::FIELDS), ("cpu", CpuField::FIELDS)];

    #[test]
    fn periods_and_thresholds_are_set_and_cleared() {
        let it = MonSettings::new(KNOWN);
        let set = |line: &str| it.control(line.as_bytes()).map_err(|it| it.refusal);
        assert_eq!(it.text(), "(ctl (rate node 1000) (rate cpu 1000))\n");
        assert_eq!(set(" "), Ok(false));
        assert_eq!(set("rate cpu 50"), Ok(true));
        assert_eq!(set("threshold node.load1 > 2.5"), Ok(true));
        assert_eq!(set("threshold cpu.busy_ns >= 7"), Ok(true));
        // One for each number.
        assert_eq!(set("threshold node.load1 < 2"), Ok(true));
        let text = "(ctl (rate node 1000) (rate cpu 50) (threshold cpu.busy_ns >= 7) \
                    (threshold node.load1 < 2))\n";
        assert_eq!(it.text(), text);
        assert_eq!(it.period(it.categories()), Duration::from_millis(50));
        assert_eq!(it.watched().1, Duration::from_millis(50));
        assert_eq!(set("clear cpu.busy_ns"), Ok(true));
        assert_eq!(it.watched().1, DEFAULT_PERIOD);
        for odd in ["rate cpu 1", "rate gpu 50", "threshold load1 > 2", "clear cpu.busy_ns", "odd"]
        {
            assert_eq!(set(odd), Err(Refusal::Invalid), "{odd}");
        }
    }

    #[test]
    fn a_category_is_left_out_until_it_is_enabled_and_one_stays() {
        let it = MonSettings::new(KNOWN);
        let set = |line: &str| it.control(line.as_bytes()).map_err(|it| it.refusal);
        assert_eq!(it.enabled(), Vec::<&str>::new());
        assert_eq!(set("disable cpu"), Ok(true));
        assert_eq!(it.enabled(), ["node"]);
        assert!(it.text().ends_with(" (disabled cpu))\n"));
        assert_eq!(set("disable node"), Err(Refusal::Invalid));
        assert_eq!(set("disable gpu"), Err(Refusal::Invalid));
        assert_eq!(set("enable cpu"), Ok(true));
        assert_eq!(it.enabled(), Vec::<&str>::new());
    }
}
