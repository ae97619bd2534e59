//! A series of samples from one backend, with the rates between consecutive ones.
//!
//! In: samples, optionally grouped. Out: rates since the previous sample. Reads nothing.

use monitor_model::{Grouped, Rates, Sample, rates};

/// The last sample of a series.
#[derive(Default)]
pub struct Session {
    last: Option<Rates>,
}

impl Session {
    /// Whether it has a sample.
    pub const fn has_begun(&self) -> bool {
        self.last.is_some()
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
    pub fn advance_grouped(&mut self, sample: Sample, groups: Option<Grouped>) -> &Rates {
        let next = match &self.last {
            Some(before) => rates::rates(&before.sample, sample),
            None => rates::first(sample),
        };
        self.last.insert(Rates { groups, ..next })
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
