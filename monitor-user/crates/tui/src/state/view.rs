//! The settings of the view.

use monitor_model::{GroupBy, ProcessField};
use monitor_sampling::expression::{Expression, Subject};
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
    /// Signal masks and received signals.
    Signals,
    /// Its threads.
    Threads,
    /// Rules that were started from the screen.
    Rules,
}

impl Tab {
    /// All pages, from left to right.
    pub const ALL: [Self; 6] = [
        Self::Overview,
        Self::Storage,
        Self::Connections,
        Self::Signals,
        Self::Threads,
        Self::Rules,
    ];

    /// Its title.
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

    /// The page `step` positions to the right, cyclic.
    pub fn beside(self, step: isize) -> Self {
        let at = Self::ALL.iter().position(|it| *it == self).unwrap_or(0);
        let n = Self::ALL.len();
        Self::ALL[at.saturating_add_signed(step + n.cast_signed()) % n]
    }
}

/// A condition, as text and parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The text.
    pub text: String,
    /// The parsed condition.
    pub expression: Expression,
}

/// The settings of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The order of rows.
    pub order: Order,
    /// The selected columns; absent for the default ones.
    pub columns: Option<Vec<ProcessField>>,
    /// The condition of rows.
    pub condition: Option<Condition>,
    /// What processes are grouped by.
    pub group_by: Option<GroupBy>,
    /// Whether processes are shown as a tree.
    pub tree: bool,
    /// The period of readings.
    pub period: Duration,
    /// Whether the screen is frozen.
    pub frozen: bool,
    /// The number of columns scrolled off to the left.
    pub left: usize,
}

impl View {
    /// Whether a process or group matches the condition.
    pub fn admits(&self, row: &impl Subject) -> bool {
        self.condition.iter().all(|it| it.expression.admits(row))
    }
}

impl Default for View {
    fn default() -> Self {
        Self {
            order: Order { field: ProcessField::CpuPercent, direction: Direction::Descending },
            columns: None,
            condition: None,
            group_by: None,
            tree: false,
            period: Duration::from_secs(1),
            frozen: false,
            left: 0,
        }
    }
}
