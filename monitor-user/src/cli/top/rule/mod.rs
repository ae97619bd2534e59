//! Rules of the screen: OMIS requests to the daemon or to a request engine in this process.
//!
//! ```text
//!  order -> rule table -> requests -> transport (cli/ask) -> replies -> rule table -> rule states
//! ```
//!
//! In: orders, and a source of updates. Out: the same updates, and those of the rules. The session
//! ends with the screen, and everything it started ends with it.

mod compile;
mod state;
mod worker;

use compile::WatchedEvent;
use monitor_tui::feed_source::{FeedEvent, FeedSource};
use monitor_tui::rule::RuleRequest;
use monitor_tui::view_query::ViewQuery;
pub use worker::RuleSource;
use worker::RuleWorker;

/// A source of updates that also runs rules.
pub struct WithRules<F> {
    source: F,
    worker: RuleWorker,
}

impl<F: FeedSource> WithRules<F> {
    /// Rules run at the daemon or in this process.
    pub fn new(source: F, rules: RuleSource) -> Self {
        Self { source, worker: RuleWorker::new(rules) }
    }
}

impl<F: FeedSource> FeedSource for WithRules<F> {
    fn set_query(&mut self, query: &ViewQuery) {
        self.source.set_query(query);
    }

    async fn next(&mut self) -> FeedEvent {
        tokio::select! {
            biased;
            rules = self.worker.changed() => FeedEvent::Rules(rules),
            update = self.source.next() => update,
        }
    }

    fn seek(&mut self, steps: i64) -> Result<(), String> {
        self.source.seek(steps)
    }

    fn rule(&mut self, order: RuleRequest) -> Result<(), String> {
        // Check first, so that a syntax error is reported at once.
        if let RuleRequest::Start { event, .. } = &order {
            WatchedEvent::from_text(event)?;
        }
        self.worker.send(order)
    }
}
