//! What the probes of a tap cost a process.
//!
//! In: a tap and a process. Out: the probes that would be set, with the price of a hit as it was
//! measured on this machine. Attaches nothing.

use super::attach::FoundSite;
use super::{TapError, Taps, ends::EndSites};
use monitor_backend::rule::call_prices::CallPrices;
use monitor_event::tap::Tap;
use monitor_model::Pid;
use monitor_symbols::{calls::CallSite, site::ProbeCost};
use std::{path::PathBuf, task::Poll};

/// Probes of one kind in one function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbePrice {
    /// The file of the function.
    pub file: PathBuf,
    /// Offset of the function in the file.
    pub function: u64,
    /// Where in a call.
    pub place: ProbePlace,
    /// How many there are; a call hits one of them.
    pub n_probes: usize,
    /// What a hit costs, in nanoseconds; none if that cannot be measured.
    pub ns: Option<u64>,
}

/// Where in a call a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbePlace {
    /// At its start.
    Start,
    /// At a return instruction, or a jump to another function.
    End,
    /// At the replaced return address.
    Trampoline,
}

impl ProbePlace {
    /// Its name in replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Trampoline => "trampoline",
        }
    }
}

/// What a call costs at most: its start and one of its ends, in the most expensive function.
pub fn ns_per_call(probes: &[ProbePrice]) -> Option<u64> {
    let of_function = |it: &ProbePrice| {
        let same = |other: &&ProbePrice| (&other.file, other.function) == (&it.file, it.function);
        probes.iter().filter(same).map(|it| it.ns).sum::<Option<u64>>()
    };
    let each = probes.iter().map(of_function).collect::<Option<Vec<u64>>>()?;
    Some(each.into_iter().max().unwrap_or(0))
}

impl Taps {
    /// The probes that a tap sets in a process, with its options.
    pub fn probe_prices(&mut self, tap: &Tap, pid: Pid) -> Poll<Result<Vec<ProbePrice>, TapError>> {
        let found = match self.find_calls(tap, pid) {
            Poll::Ready(Ok(found)) => found,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let prices = self.rules.measure_call_prices();
        let mut all = Vec::new();
        for site in &found.sites {
            let found = FoundSite { site, pid };
            match self.has_start(tap, found) {
                Ok(has_start) => all.extend(prices_at(tap, site, has_start, prices)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(all))
    }

    /// Whether the tap has a probe at the start of calls.
    fn has_start(&mut self, tap: &Tap, found: FoundSite<'_>) -> Result<bool, TapError> {
        let plans = self.plan(tap, found, self.options.get(tap).copied().unwrap_or_default())?;
        self.free(plans.timer);
        Ok(!plans.plan.entry.is_empty())
    }
}

fn prices_at(
    tap: &Tap,
    site: &CallSite,
    has_start: bool,
    prices: Option<CallPrices>,
) -> Vec<ProbePrice> {
    let start_ns = prices.map(|prices| match site.cost {
        ProbeCost::Emulated => prices.emulated_ns,
        ProbeCost::Patched => prices.patched_ns,
        ProbeCost::Stepped(_) => prices.stepped_ns,
    });
    let price = |place, n_probes, ns| ProbePrice {
        file: site.file.path.clone(),
        function: site.offset,
        place,
        n_probes,
        ns,
    };
    let mut all = Vec::from_iter(has_start.then(|| price(ProbePlace::Start, 1, start_ns)));
    match EndSites::from_tap(tap, site) {
        EndSites::None => {}
        EndSites::Instructions(ends) => {
            let n_probes = ends.returns.len() + ends.tail_jumps.len();
            all.push(price(ProbePlace::End, n_probes, prices.map(|it| it.stepped_ns)));
        }
        EndSites::Trampoline(_) => {
            // Its breakpoint is at the start, which is hit once for all probes there.
            let start_ns = if has_start { Some(0) } else { start_ns };
            let ns = prices.zip(start_ns).map(|(prices, start)| prices.trampoline_ns + start);
            all.push(price(ProbePlace::Trampoline, 1, ns));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(function: u64, place: ProbePlace, ns: Option<u64>) -> ProbePrice {
        ProbePrice { file: "/lib".into(), function, place, n_probes: 1, ns }
    }

    #[test]
    fn a_call_costs_its_start_and_one_end_of_the_most_expensive_function() {
        let (start, end) = (ProbePlace::Start, ProbePlace::End);
        let mut all =
            vec![price(1, start, Some(7)), price(1, end, Some(20)), price(2, end, Some(23))];
        assert_eq!(ns_per_call(&all), Some(27));
        all.push(price(3, start, None));
        assert_eq!((ns_per_call(&all), ns_per_call(&[])), (None, Some(0)));
    }
}
