//! The usage of this program: CPU between two measurements, and memory.

use super::feed_source::Usage;
use monitor_model::id::Ns;
use monitor_sys::{clock, memory};

/// Time and CPU time at the last measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessCost(Option<(Ns, Ns)>);

impl ProcessCost {
    /// The usage since the last measurement.
    pub fn measure(&mut self) -> Usage {
        let (at, cpu) = (clock::boot(), clock::process_cpu());
        let before = self.0.replace((at, cpu)).filter(|(before, _)| at > *before);
        let cpu_percent = before.map(|(before, used)| share(cpu.since(used), at.since(before)));
        Usage { part: "self", cpu_percent, rss_bytes: memory::resident_bytes() }
    }
}

/// CPU time as percent of one processor.
pub fn share(used: Ns, of: Ns) -> f64 {
    used.0 as f64 / of.0 as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_known_from_the_second_measurement_on() {
        let mut cost = ProcessCost::default();
        assert_eq!(cost.measure().cpu_percent, None);
        let second = cost.measure();
        assert!(second.cpu_percent.is_some_and(|it| it >= 0.0) && second.rss_bytes.is_some());
    }

    #[test]
    fn a_share_is_of_one_processor() {
        assert!((share(Ns(20), Ns(1_000)) - 2.0).abs() < 1e-9);
    }
}
