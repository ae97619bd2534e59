//! The daemon's CPU time by what it was used for.
//!
//! In: the sampler thread's time, and what its consumers used of it. Out: the parts by name, whose
//! sum is the CPU time of the process.

use monitor_format::exposition::Encoding;
use monitor_model::Ns;
use std::collections::BTreeMap;

/// CPU time of the sampler thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplerCpu {
    /// All of it.
    pub total: Ns,
    /// Of it: views of readings, filtered and written for clients.
    pub samples: Ns,
    /// Of it: scrapes, each with its reading.
    pub scrapes: Ns,
    /// Of it: metrics that were pushed, each with its reading.
    pub pushes: Ns,
}

impl SamplerCpu {
    /// Adds the time of a reading for metrics: OTLP is what is pushed.
    pub fn add_metrics(&mut self, encoding: Encoding, used: Ns) {
        match encoding {
            Encoding::Otlp => self.pushes.0 += used.0,
            Encoding::Text(_) | Encoding::Protobuf => self.scrapes.0 += used.0,
        }
    }

    /// The parts, of a process that has used this much.
    pub fn parts(&self, process: Ns) -> BTreeMap<String, u64> {
        let others = self.samples.0 + self.scrapes.0 + self.pushes.0;
        let parts = [
            ("readings", self.total.0.saturating_sub(others)),
            ("samples", self.samples.0),
            ("scrapes", self.scrapes.0),
            ("pushes", self.pushes.0),
            ("connections", process.since(self.total).0),
        ];
        parts.into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::exposition::Dialect;

    #[test]
    fn the_sum_of_the_parts_is_the_whole() {
        let mut cpu = SamplerCpu { total: Ns(70), samples: Ns(13), ..SamplerCpu::default() };
        cpu.add_metrics(Encoding::Otlp, Ns(7));
        cpu.add_metrics(Encoding::Text(Dialect::Prometheus), Ns(3));
        cpu.add_metrics(Encoding::Protobuf, Ns(2));
        let parts = cpu.parts(Ns(101));
        let of = |name: &str| parts[name];
        let all = ["readings", "samples", "scrapes", "pushes", "connections"].map(of);
        assert_eq!(all, [45, 13, 5, 7, 31]);
        assert_eq!(parts.values().sum::<u64>(), 101);
    }
}
