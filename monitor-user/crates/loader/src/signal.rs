//! Signals since the last reading: the ring buffer of `bin/signal.rs`.
//!
//! In: records of generated and delivered signals. Out: events, in chronological order.

use crate::{decode, kernel::Kernel, object::Object, probe_reader::ProbeReader};
use aya::maps::{MapData, RingBuf};
use monitor_backend::Error;
use monitor_ebpf::abi::signal::{self, ANY_THREAD, KIND_DELIVERED, KIND_GENERATED};
use monitor_model::{
    Ns, Pid, Sample, SampleEvent, SampleEventKind, SignalOutcome, event::EVENTS_LIMIT,
};
use std::os::fd::{AsFd, BorrowedFd};
use zerocopy::FromBytes;

/// The signal hooks and their pending events.
pub struct SignalReader {
    object: Object,
    ring: RingBuf<MapData>,
    events: Vec<SampleEvent>,
    /// Events beyond [`EVENTS_LIMIT`].
    dropped: u64,
}

impl SignalReader {
    /// Loads and attaches the hooks.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let sizes = [(signal::RING, kernel.machine.ring_bytes())];
        let mut object = Object::load("signal", kernel, &[], &sizes)?;
        object.attach("generate", "signal_generate", &kernel.btf)?;
        object.attach("deliver", "signal_deliver", &kernel.btf)?;
        let ring = object.ring(signal::RING)?;
        Ok(Self { object, ring, events: Vec::new(), dropped: 0 })
    }
}

impl ProbeReader for SignalReader {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        self.drain();
        // Records of several CPUs are in the order in which they were reserved.
        self.events.sort_by_key(|event| event.at);
        sample.events.append(&mut self.events);
    }

    /// Readable when a quarter of the ring is used.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn drain(&mut self) {
        while let Some(item) = self.ring.next() {
            match event(&item) {
                Some(event) if self.events.len() < EVENTS_LIMIT => self.events.push(event),
                Some(_) => self.dropped += 1,
                None => {} // Unknown kind, of a newer object.
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn event(bytes: &[u8]) -> Option<SampleEvent> {
    let (record, _) = signal::SignalRecord::read_from_prefix(bytes).ok()?;
    let signal = monitor_model::event::Signal {
        number: record.number,
        code: record.code,
        thread: (record.target_tid != ANY_THREAD).then_some(Pid(record.target_tid)),
    };
    let what = match record.kind {
        KIND_GENERATED => SampleEventKind::SignalGenerated {
            signal,
            sender: (record.sender.tgid != 0).then(|| decode::identity(record.sender)),
            outcome: outcome(record.result),
        },
        KIND_DELIVERED => SampleEventKind::SignalDelivered { signal },
        _ => return None,
    };
    Some(SampleEvent {
        at: Ns(record.at_boottime_ns),
        target: decode::identity(record.target),
        kind: what,
    })
}

const fn outcome(result: u32) -> SignalOutcome {
    match result {
        1 => SignalOutcome::Ignored,
        2 => SignalOutcome::AlreadyPending,
        3 => SignalOutcome::Overflowed,
        4 => SignalOutcome::Stripped,
        _ => SignalOutcome::Queued,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_ebpf::abi::Owner;
    use zerocopy::IntoBytes;

    #[test]
    fn a_signal_from_the_kernel_has_no_sender() {
        let target = Owner { start_boottime_ns: 5, tgid: 7, zero: 0 };
        let record = signal::SignalRecord { kind: KIND_GENERATED, target, ..Default::default() };
        let Some(SampleEvent {
            kind: SampleEventKind::SignalGenerated { sender, signal, .. }, ..
        }) = event(record.as_bytes())
        else {
            panic!("not a signal")
        };
        assert_eq!((sender, signal.thread), (None, None));
    }

    #[test]
    fn a_truncated_or_unknown_record_is_no_event() {
        let record = signal::SignalRecord { kind: 77, ..Default::default() };
        assert_eq!(event(record.as_bytes()), None);
        assert_eq!(event(&record.as_bytes()[..63]), None);
    }
}
