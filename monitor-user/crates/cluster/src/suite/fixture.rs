//! The bus under test, as the cases use it.

use crate::bus::Bus;
use crate::bus::entry::Seq;
use monitor_model::Ns;

/// How long a command of a case may take.
pub const LONG: Ns = Ns(30_000_000_000);

/// A bus under test.
pub trait BusFixture {
    /// Connects a port.
    fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus>;

    /// The boot clock.
    fn now(&self) -> Ns;

    /// Kills what carries the order, as a failure would, and starts it again.
    fn restart(&mut self);
}
