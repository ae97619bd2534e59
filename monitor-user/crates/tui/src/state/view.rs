//! What the user has chosen to see.

use monitor_model::field::ProcessField;
use monitor_model::group::By;
use monitor_sampling::expression::Expression;
use monitor_sampling::order::{Direction, Order};
use std::time::Duration;

/// A page of the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// Numbers and history.
    Overview,
    /// Block I/O with latencies.
    Storage,
    /// Open connections.
    Connections,
    /// What it does with signals, and those that it got.
    Signals,
    /// Its threads.
    Threads,
    /// Rules that were started here.
    Rules,
}

impl Tab {
    /// All of them, from left to right.
    pub const ALL: [Self; 6] = [
        Self::Overview,
        Self::Storage,
        Self::Connections,
        Self::Signals,
        Self::Threads,
        Self::Rules,
    ];

    /// What is written on it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Storage => "Block I/O",
            Self::Connections => "Connections",
            Self::Signals => "Signals",
            Self::Threads => "Threads",
            Self::Rules => "Rules",
        }
    }

    /// The one so many further to the right, round and round.
    pub fn beside(self, step: isize) -> Self {
        let at = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        let n = Self::ALL.len();
        Self::ALL[at.saturating_add_signed(step + n.cast_signed()) % n]
    }
}

/// A condition as it was typed, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was typed.
    pub text: String,
    /// What it means.
    pub expression: Expression,
}

/// What the user has chosen to see.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// By what rows are sorted.
    pub order: Order,
    /// The columns; those that fit the line, if nobody chose.
    pub columns: Option<Vec<ProcessField>>,
    /// Which rows.
    pub condition: Option<Condition>,
    /// What processes are added up by.
    pub by: Option<By>,
    /// Whether children stand below their parents.
    pub tree: bool,
    /// How often is read.
    pub every: Duration,
    /// Whether it stands still.
    pub frozen: bool,
    /// Columns that are left of the screen.
    pub left: usize,
}

impl Default for View {
    fn default() -> Self {
        Self {
            order: Order { field: ProcessField::CpuPercent, direction: Direction::Descending },
            columns: None,
            condition: None,
            by: None,
            tree: false,
            every: Duration::from_secs(1),
            frozen: false,
            left: 0,
        }
    }
}
