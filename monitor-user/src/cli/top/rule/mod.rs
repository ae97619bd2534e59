//! Rules of the screen: requests of the language, to the daemon or to a machine of our own.
//!
//! ```text
//!  an order -> book -> lines -> a way to a monitor (cli/ask) -> lines -> book -> how rules stand
//! ```
//!
//! In: orders, and a feed. Out: the same feed, which tells of rules too. The session ends with
//! the screen, however that ends, and all that it started with it.

mod book;
mod desk;
mod wish;

use crate::cli::args::Reader;
use desk::{Desk, Source};
use monitor_tui::demand::Demand;
use monitor_tui::feed::{Feed, Told};
use monitor_tui::rule::Order;
use wish::Wish;

/// A feed beside which rules run.
pub struct Ruled<F> {
    feed: F,
    desk: Desk,
}

impl<F: Feed> Ruled<F> {
    /// By the daemon that the feed reads from.
    pub fn relayed(feed: F, reader: &Reader) -> Self {
        Self { feed, desk: Desk::new(Source::Daemon(reader.socket.clone())) }
    }

    /// By this program itself.
    pub fn local(feed: F, reader: &Reader) -> Self {
        Self { feed, desk: Desk::new(Source::Here(reader.backend)) }
    }
}

impl<F: Feed> Feed for Ruled<F> {
    fn demand(&mut self, demand: &Demand) {
        self.feed.demand(demand);
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            rules = self.desk.told() => Told::Rules(rules),
            told = self.feed.next() => told,
        }
    }

    fn seek(&mut self, steps: i64) -> Result<(), String> {
        self.feed.seek(steps)
    }

    fn rule(&mut self, order: Order) -> Result<(), String> {
        // Before it is on its way: what makes no sense is said at once.
        if let Order::Start { event, .. } = &order {
            Wish::from_text(event)?;
        }
        self.desk.order(order)
    }
}
