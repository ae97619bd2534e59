//! Where the numbers of the screen come from: a backend here, a daemon, a recording, a script.
//!
//! A feed is told what is wanted and gives news. It never sees the screen, and the screen never
//! sees it: it shows the news that it was given last.

use super::demand::Demand;
use super::rule::{Order, Rules};
use super::state::Tab;
use monitor_backends::procfs::inside;
use monitor_backends::procfs::inside::{Connection, Signals};
use monitor_model::id::{Identity, Ns};
use monitor_model::rates::Rates;
use monitor_model::sample::Process;
use monitor_sampling::examination::Entry;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What a feed tells.
#[derive(Clone, Debug)]
pub enum Told {
    /// A reading.
    News(Arc<News>),
    /// How the rules stand that were started here.
    Rules(Rules),
    /// One sentence for people; the numbers stay as they were.
    Said(String),
    /// There will be no more, for this reason.
    Ended(String),
}

/// A reading and what belongs to it.
#[derive(Clone, Debug, Default)]
pub struct News {
    /// The sample with its rates.
    pub rates: Rates,
    /// How many rows there were to choose from; as many as there are, if absent.
    pub matched: Option<usize>,
    /// The process whose details are shown, with all that is known of it.
    pub focus: Option<Process>,
    /// What is looked up of that process alone.
    pub inside: Inside,
    /// What we and whoever reads for us cost.
    pub cost: Vec<Cost>,
    /// Health of the data plane.
    pub probes: Arc<[Entry]>,
    /// Where in a recording this is.
    pub place: Option<Place>,
}

/// What is looked up of one process, while the page that shows it is open.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Its connections, or why they are not known.
    pub connections: Option<Result<Vec<Connection>, String>>,
    /// What it does with signals, or why that is not known.
    pub signals: Option<Result<Signals, String>>,
}

impl Inside {
    /// What a recording has of it: nothing.
    pub fn recorded() -> Self {
        let why = || Some("a recording does not have them".to_owned());
        Self { connections: why().map(Err), signals: why().map(Err) }
    }

    /// Looks up what the open page shows.
    pub fn of(focus: Option<(Identity, Tab)>) -> Self {
        let pid = |id: Identity| id.pid.0;
        match focus {
            Some((id, Tab::Connections)) => {
                Self { connections: Some(inside::connections(pid(id))), signals: None }
            }
            Some((id, Tab::Signals)) => {
                Self { connections: None, signals: Some(inside::signals(pid(id))) }
            }
            _ => Self::default(),
        }
    }
}

/// What a part of the monitor costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Which part.
    pub who: &'static str,
    /// Hundredths of a processor; not known before two readings.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
}

/// A place in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// When this was, on the realtime clock.
    pub unix: Ns,
    /// Since its beginning.
    pub at: Duration,
    /// How long it is.
    pub of: Duration,
}

/// A source of news.
pub trait Feed {
    /// What is wanted from now on.
    fn demand(&mut self, demand: &Demand);

    /// Waits for what comes next. Nothing is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Told>;

    /// Goes so many steps forward or back in a recording; says why it cannot.
    fn seek(&mut self, _: i64) -> Result<(), String> {
        Err("this is live: only a recording has a past to go back to".into())
    }

    /// Starts or removes a rule; says why it cannot.
    fn rule(&mut self, _: Order) -> Result<(), String> {
        Err("this is a recording: there is nobody to watch".into())
    }
}
