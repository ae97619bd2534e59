//! What a tap does besides telling of each call, or instead.
//!
//! In: what the lists of a call do. Out: lists that do more, or less. Sets nothing.

use super::plan::CallPlan;
use monitor_backend::rule::insn::{Insn, LatencyHistogramId, Reg, SignalTarget};
use monitor_event::tap::Edge;

/// What a tap does besides telling of each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct TapOptions {
    /// Counts how long calls take; for their ends.
    pub histogram: Option<LatencyHistogramId>,
    /// A signal to the process, at once.
    pub signal: Option<u32>,
    /// Calls are counted and not told.
    pub is_silent: bool,
}

impl CallPlan {
    /// The same, which does more than telling, or less.
    pub(super) fn with(mut self, edge: Edge, manner: TapOptions) -> Self {
        let acts = match edge {
            Edge::Start => &mut self.entry,
            Edge::End => &mut self.exit,
        };
        if manner.is_silent {
            acts.retain(|act| !matches!(act, Insn::Record(_)));
        }
        if let (Some(histogram), Edge::End) = (manner.histogram, edge) {
            // Behind the act that gives the time, as its first value.
            acts.insert(1, Insn::LatencyHistogram(histogram, Reg(0)));
        }
        acts.extend(manner.signal.map(|number| Insn::Signal(number, SignalTarget::Process)));
        // What neither tells nor counts otherwise still runs, and its runs are counted.
        if acts.is_empty() {
            acts.push(Insn::Constant(Reg(0), 0));
        }
        self
    }
}
