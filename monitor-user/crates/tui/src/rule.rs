//! Rules that a person started from the screen: what is wished, and how each stands.
//!
//! In: nothing. Out: orders, which the feed carries out, and what it tells of them. How an event
//! is watched is not known here.

use monitor_model::id::{Identity, Ns};
use std::sync::Arc;

/// What is wished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Watch this event in a process.
    Start {
        /// In which process.
        id: Identity,
        /// What it is called.
        name: String,
        /// As it was typed: `call MPI_Send`, `signal`.
        event: String,
    },
    /// Remove the rule of this number.
    Remove(u32),
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// By which it is removed.
    pub number: u32,
    /// In which process.
    pub id: Identity,
    /// What that is called.
    pub name: String,
    /// What is watched, as it was typed.
    pub event: String,
    /// How often it occurred.
    pub count: u64,
    /// How often in each second, lately.
    pub per_s: Option<f64>,
    /// How long half of the calls took at most, and 99 of 100.
    pub times: Option<[Ns; 2]>,
    /// Occurrences that were lost.
    pub lost: u64,
    /// The last ones, the latest first.
    pub last: Vec<Last>,
    /// How it stands.
    pub state: Standing,
}

/// An occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// When, since boot.
    pub at: Ns,
    /// What is told of it.
    pub text: String,
}

/// How a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was asked for.
    Asked,
    /// It runs.
    Runs,
    /// It runs, but not all that was asked for could be had.
    Partly(String),
    /// It could not be started, or does not run any more.
    Over(String),
}

impl Standing {
    /// Why it is not as it should be, or not yet.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Asked => Some("being started"),
            Self::Runs => None,
            Self::Partly(why) | Self::Over(why) => Some(why),
        }
    }
}

/// All rules, by number.
pub type Rules = Arc<[Rule]>;
