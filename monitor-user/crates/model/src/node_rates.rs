//! Rates of the node: its processors, pressure and devices.
//!
//! In: two readings of a node. Out: the rates of the second. The busy time is exact; how it is
//! divided is what the timer sampled, scaled to it; idle is what remains of the processors.

use super::field::node::{CpuRow, NodeRow};
use super::field::{CpuField, NodeField as F};
use super::{Device, Node, Ns};

/// The parts of busy time: their rates, and the samples.
const PARTS: [(F, F); 5] = [
    (F::UserPercent, F::CpuUser),
    (F::NicePercent, F::CpuNice),
    (F::SystemPercent, F::CpuSystem),
    (F::IrqPercent, F::CpuIrq),
    (F::SoftirqPercent, F::CpuSoftirq),
];
/// Those that are part of the time of tasks, even if the kernel counts interrupts apart.
const IN_TASKS: usize = 3;

/// Shares of the time, in which something was so or not.
const PRESSURE: [F; 5] = [
    F::PsiCpuPercent,
    F::PsiMemoryPercent,
    F::PsiMemoryFullPercent,
    F::PsiIoPercent,
    F::PsiIoFullPercent,
];

/// Sets the rates of a node since its reading before. The interval is that of the samples; the node
/// is read after the processes, and has its own if both readings have their times.
pub fn set(old: &Node, new: &mut Node, interval: Ns) {
    let at = |it: &Node| it.row.get(F::Uptime).map(Ns);
    let own = at(new).zip(at(old)).map(|(now, then)| now.since(then));
    let interval = own.filter(|it| *it > Ns(0)).unwrap_or(interval);
    new.row.set_rates(&old.row, interval);
    if old.row.get(F::CpuBusySampled) != new.row.get(F::CpuBusySampled) {
        // Counters of two sources have no difference.
        new.row.clear(F::BusyPercent);
        new.row.clear(F::TasksPercent);
    }
    for (number, row) in &mut new.cpus {
        if let Some((_, old)) = old.cpus.iter().find(|(other, _)| other == number) {
            row.set_rates(old, interval);
            set_idle_cpu(row);
        }
    }
    divide(&mut new.row);
    set_idle(&mut new.row);
    // Pressure has another clock: what is always so may be above by a trace.
    for field in PRESSURE {
        if let Some(share) = percent(&new.row, field) {
            new.row.set_float(field, share.min(100.0));
        }
    }
    by_name(&old.disks, &mut new.disks, |old, new| new.set_rates(old, interval));
    by_name(&old.nets, &mut new.nets, |old, new| new.set_rates(old, interval));
}

fn percent(row: &NodeRow, field: F) -> Option<f64> {
    row.get(field).map(f64::from_bits)
}

/// Scales the parts to the busy time. If the timer sampled none of it in the interval, it is
/// divided as all of it since boot.
fn divide(row: &mut NodeRow) {
    let (Some(busy), Some(tasks)) = (percent(row, F::BusyPercent), percent(row, F::TasksPercent))
    else {
        return;
    };
    // Counted apart, interrupts are exact and the rest of the busy time.
    let apart = row.get(F::CpuBusy) > row.get(F::CpuTasks);
    let (parts, whole) = if apart { (&PARTS[..IN_TASKS], tasks) } else { (&PARTS[..], busy) };
    let sum = |shares: &[f64]| Some(shares.iter().sum::<f64>()).filter(|sum| *sum > 0.0);
    let of = |share: &dyn Fn(&(F, F)) -> Option<f64>| -> Option<Vec<f64>> {
        parts.iter().map(share).collect()
    };
    let Some(sampled) = of(&|it| percent(row, it.0)) else { return };
    let shares = match sum(&sampled) {
        Some(_) => sampled,
        None => of(&|it| row.get(it.1).map(|total| total as f64)).unwrap_or_default(),
    };
    if let Some(all) = sum(&shares) {
        for (part, share) in parts.iter().zip(shares) {
            row.set_float(part.0, share * whole / all);
        }
    }
}

/// The rest of the capacity. Of tasks that wait for I/O on an idle processor the kernel decides
/// which idle time is `iowait`.
fn set_idle(row: &mut NodeRow) {
    let busy = percent(row, F::BusyPercent);
    let (Some(busy), Some(cpus)) = (busy, row.get(F::OnlineCpus)) else { return };
    let used = [F::IowaitPercent, F::StealPercent].into_iter().filter_map(|it| percent(row, it));
    let used: f64 = used.sum();
    row.set_float(F::IdlePercent, (100.0 * cpus as f64 - busy - used).max(0.0));
}

fn set_idle_cpu(row: &mut CpuRow) {
    let Some(busy) = row.get(CpuField::BusyPercent).map(f64::from_bits) else { return };
    let used = [CpuField::IowaitPercent, CpuField::StealPercent];
    let used: f64 = used.into_iter().filter_map(|it| row.get(it)).map(f64::from_bits).sum();
    row.set_float(CpuField::IdlePercent, (100.0 - busy - used).max(0.0));
}

fn by_name<R>(before: &[Device<R>], now: &mut [Device<R>], set: impl Fn(&R, &mut R)) {
    for device in now {
        if let Some(old) = before.iter().find(|other| other.name == device.name) {
            set(&old.row, &mut device.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTERS: [F; 9] = [
        F::CpuBusy,
        F::CpuTasks,
        F::CpuUser,
        F::CpuNice,
        F::CpuSystem,
        F::CpuIrq,
        F::CpuSoftirq,
        F::CpuSteal,
        F::CpuIowait,
    ];
    const RATES: [F; 8] = [
        F::BusyPercent,
        F::UserPercent,
        F::NicePercent,
        F::SystemPercent,
        F::IrqPercent,
        F::SoftirqPercent,
        F::StealPercent,
        F::IdlePercent,
    ];

    /// Two processors, one second apart.
    #[track_caller]
    fn check(grown: [u64; 9], wanted: [Option<f64>; 8]) {
        let [mut old, mut new] = [Node::default(), Node::default()];
        for (field, grown) in COUNTERS.into_iter().zip(grown) {
            old.row.set(field, 1_000);
            new.row.set(field, 1_000 + grown * 10_000_000);
        }
        new.row.set(F::OnlineCpus, 2);
        set(&old, &mut new, Ns(1_000_000_000));
        assert_eq!(RATES.map(|it| percent(&new.row, it)), wanted);
    }

    #[test]
    fn samples_are_scaled_to_the_exact_time_and_idle_is_the_rest() {
        let parts = [4.0, 80.0, 8.0, 2.0, 6.0].map(Some);
        let [user, nice, system, irq, softirq] = parts;
        check([100, 100, 2, 40, 4, 1, 3, 10, 20], {
            [Some(100.0), user, nice, system, irq, softirq, Some(10.0), Some(70.0)]
        });
    }

    #[test]
    fn interrupts_counted_apart_are_not_scaled() {
        let parts = [12.0, 0.0, 36.0, 1.0, 3.0].map(Some);
        let [user, nice, system, irq, softirq] = parts;
        check([52, 48, 6, 0, 18, 1, 3, 0, 0], {
            [Some(52.0), user, nice, system, irq, softirq, Some(0.0), Some(148.0)]
        });
    }

    #[test]
    fn busy_time_that_the_timer_did_not_sample_is_divided_as_all_before() {
        let (busy, part) = (Some(3.0), Some(0.6));
        check([3, 3, 0, 0, 0, 0, 0, 0, 0], {
            [busy, part, part, part, part, part, Some(0.0), Some(197.0)]
        });
        check([0; 9], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 200.0].map(Some));
    }

    #[test]
    fn the_interval_of_the_node_is_between_its_own_readings_and_no_share_exceeds_it() {
        let [mut old, mut new] = [Node::default(), Node::default()];
        for (node, at, tasks, some) in [(&mut old, 5, 0, 0), (&mut new, 1_005, 500, 1_001)] {
            node.row.set(F::Uptime, at);
            node.row.set(F::CpuTasks, tasks);
            node.row.set(F::PsiCpuSome, some);
        }
        set(&old, &mut new, Ns(100));
        assert_eq!(percent(&new.row, F::TasksPercent), Some(50.0));
        assert_eq!(percent(&new.row, F::PsiCpuPercent), Some(100.0));
    }
}
