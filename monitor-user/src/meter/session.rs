//! A row of samples from one backend: keeps the last one, so that each has its rates.

use crate::model::rates::{self, Rates};
use crate::model::sample::Sample;

/// The last sample.
#[derive(Default)]
pub struct Session {
    last: Option<Rates>,
}

impl Session {
    /// Takes the next sample and sets its rates since the one before.
    pub fn advance(&mut self, sample: Sample) -> &Rates {
        let next = match &self.last {
            Some(before) => rates::rates(&before.sample, sample),
            None => rates::first(sample),
        };
        self.last.insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Ns;

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
