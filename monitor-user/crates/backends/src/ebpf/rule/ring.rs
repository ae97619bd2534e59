//! What lists told: the ring of `bin/rule`.
//!
//! In: records. Out: `Told`, in the order of the ring. A record that is cut or of a kind that this
//! monitor does not know is left out: a newer program made it.

use aya::maps::{MapData, RingBuf};
use monitor_backend::rule::told::{Held, Told, Why};
use monitor_backend::rule::{ListId, Reader};
use monitor_ebpf::abi::rule::NOBODY;
use monitor_ebpf::abi::rule::record::{
    Event, FRAMES, KIND_PROCESS_HELD, KIND_STORM, KIND_THREAD_HELD, KIND_TOLD, LongEvent,
};
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::whose::Eyes;
use std::os::fd::{AsFd, BorrowedFd};
use zerocopy::FromBytes;

/// The consumer of the ring.
pub struct Ring(pub RingBuf<MapData>);

impl Reader for Ring {
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn read(&mut self, most: usize, take: &mut dyn FnMut(Told)) -> usize {
        let mut n_read = 0;
        while n_read < most
            && let Some(item) = self.0.next()
        {
            n_read += 1;
            if let Some(told) = told(&item) {
                take(told);
            }
        }
        n_read
    }
}

fn told(bytes: &[u8]) -> Option<Told> {
    let (event, _) = Event::read_from_prefix(bytes).ok()?;
    let (why, held) = match event.kind {
        KIND_TOLD => (Why::Asked, Held::Nobody),
        KIND_THREAD_HELD => (Why::Asked, Held::Thread),
        KIND_PROCESS_HELD => (Why::Asked, Held::Process),
        KIND_STORM => (Why::Storm, Held::Nobody),
        _ => return None,
    };
    let mut told = Told {
        why,
        held,
        list: ListId(event.list),
        at: Ns(event.at_boottime_ns),
        process: Identity { pid: Pid(event.pid), start: Ns(event.start_boottime_ns) },
        eyes: whose(event.eyes),
        tid: Pid(event.tid),
        cpu: event.cpu,
        ip: event.ip,
        sp: event.sp,
        values: event.values,
        texts: Vec::new(),
        stack: Vec::new(),
    };
    if let Ok((long, _)) = LongEvent::ref_from_prefix(bytes) {
        told.texts =
            long.text_bytes.iter().zip(&long.texts).map(|(n, text)| cut(*n, text)).collect();
        let n_frames = (long.event.stack_bytes as usize / 8).min(FRAMES);
        told.stack = long.stack[..n_frames].to_vec();
    }
    Some(told)
}

/// Who the kernel says may look into a process.
fn whose([uid, gid]: [u32; 2]) -> Option<Eyes> {
    (uid != NOBODY).then_some(Eyes { uid, gid })
}

fn cut(length: u32, text: &[u8]) -> Option<Vec<u8>> {
    text.get(..usize::try_from(length).ok()?).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromZeros, IntoBytes};

    #[test]
    fn a_cut_or_unknown_record_is_left_out() {
        let event = Event { kind: KIND_TOLD, list: 5, eyes: [7, 8], ..Event::default() };
        let whole = told(event.as_bytes()).unwrap();
        assert_eq!((whole.list, whole.eyes), (ListId(5), Some(Eyes { uid: 7, gid: 8 })));
        assert_eq!(told(&event.as_bytes()[..127]), None);
        assert_eq!(told(Event { kind: 77, ..event }.as_bytes()), None);
    }

    #[test]
    fn a_text_that_could_not_be_read_is_none_and_a_long_stack_is_cut() {
        let mut long = LongEvent::new_zeroed();
        long.event.kind = KIND_TOLD;
        long.event.stack_bytes = u32::MAX;
        long.text_bytes = [3, u32::MAX];
        long.texts[0][..4].copy_from_slice(b"abcd");
        let told = told(long.as_bytes()).unwrap();
        assert_eq!(told.texts, [Some(b"abc".to_vec()), None]);
        assert_eq!(told.stack.len(), FRAMES);
    }
}
