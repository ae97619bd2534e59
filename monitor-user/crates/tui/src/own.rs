//! What this program itself costs: its CPU between two looks, and its memory.

use super::feed::Cost;
use monitor_model::id::Ns;
use monitor_sys::{clock, memory};

/// What had been used at the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own(Option<(Ns, Ns)>);

impl Own {
    /// What it costs since the last look.
    pub fn look(&mut self) -> Cost {
        let (at, cpu) = (clock::boot(), clock::own_cpu());
        let before = self.0.replace((at, cpu)).filter(|(before, _)| at > *before);
        let cpu_percent = before.map(|(before, used)| share(cpu.since(used), at.since(before)));
        Cost { who: "self", cpu_percent, rss_bytes: memory::resident_bytes() }
    }
}

/// Hundredths of a processor.
pub fn share(used: Ns, of: Ns) -> f64 {
    used.0 as f64 / of.0 as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_has_no_share_and_the_second_one_has() {
        let mut own = Own::default();
        assert_eq!(own.look().cpu_percent, None);
        let second = own.look();
        assert!(second.cpu_percent.is_some_and(|it| it >= 0.0) && second.rss_bytes.is_some());
    }

    #[test]
    fn a_share_is_of_one_processor() {
        assert!((share(Ns(20), Ns(1_000)) - 2.0).abs() < 1e-9);
    }
}
