//! A series of samples from one backend, with the rates between consecutive ones.
//!
//! In: samples, optionally grouped. Out: rates since the previous sample. Reads nothing. A series
//! whose readings are shared keeps no sample in between, only the counters of the reading, which
//! all series of that reading share.

use monitor_model::rates::{self, Counters};
use monitor_model::{Grouped, Node, Rates, Sample};
use std::sync::Arc;

/// What a series keeps of a shared reading until the next one.
#[derive(Clone)]
pub struct KeptReading {
    /// The counters of its processes.
    pub counters: Arc<Counters>,
    /// The node, if it was read.
    pub node: Option<Arc<Node>>,
}

/// The last sample of a series.
#[derive(Default)]
pub struct Session {
    last: Option<Rates>,
    has_begun: bool,
}

impl Session {
    /// Whether it had a sample.
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The last sample, with its rates.
    pub const fn last(&self) -> Option<&Rates> {
        self.last.as_ref()
    }

    /// Adds the next sample and returns its rates since the previous one.
    pub fn advance(&mut self, sample: Sample) -> &Rates {
        self.advance_grouped(sample, None)
    }

    /// The same with groups.
    pub fn advance_grouped(&mut self, sample: Sample, groups: Option<Grouped>) -> &mut Rates {
        let next = match &self.last {
            Some(before) => rates::rates(&before.sample, sample),
            None => rates::first(sample),
        };
        self.set(next, groups)
    }

    /// The same, with the rates since a reading that was kept; none without it.
    pub fn advance_since(
        &mut self,
        before: Option<&KeptReading>,
        (sample, groups): (Sample, Option<Grouped>),
    ) -> &mut Rates {
        let next = match before {
            Some(it) => rates::rates_since(&it.counters, it.node.as_deref(), sample),
            None => rates::first(sample),
        };
        self.set(next, groups)
    }

    fn set(&mut self, next: Rates, groups: Option<Grouped>) -> &mut Rates {
        self.has_begun = true;
        self.last.insert(Rates { groups, ..next })
    }

    /// Frees the last sample.
    pub fn free_sample(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    #[test]
    fn the_first_sample_has_no_interval_and_the_next_one_has() {
        let mut session = Session::default();
        let at = |boot| {
            let mut sample = Sample::default();
            sample.at.boot = Ns(boot);
            sample
        };
        assert_eq!(session.advance(at(100)).interval, None);
        assert_eq!(session.advance(at(350)).interval, Some(Ns(250)));
    }
}
