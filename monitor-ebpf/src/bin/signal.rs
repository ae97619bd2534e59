//! Signals: generated for a process, and delivered to one of its threads.
//!
//! Two rare hooks, one ring buffer. A standard signal that is already pending is generated again
//! but delivered once, so the second count may be smaller than the first; `result` marks these.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::helpers::bpf_get_current_pid_tgid;
    use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::{LruHashMap, RingBuf};
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::signal::{
        ANY_THREAD, KIND_DELIVERED, KIND_GENERATED, SiginfoOffsets, SignalRecord,
    };
    use monitor_ebpf::kernel::delivery::{self, EndedBySignal};
    use monitor_ebpf::kernel::{constant, loss, probe, ring, task::Task};

    /// Set by the loader.
    #[unsafe(no_mangle)]
    static SIGINFO: SiginfoOffsets = SiginfoOffsets::ABSENT;

    /// The loader sets the size.
    #[map]
    static SIGNALS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

    #[map]
    static ENDED_BY_SIGNAL: EndedBySignal = LruHashMap::with_max_entries(1024, 0);

    const NO_OWNER: Owner = Owner { start_boottime_ns: 0, tgid: 0, zero: 0 };

    // `si_code` of a signal that a process sent, include/uapi/asm-generic/siginfo.h.
    const SI_USER: i32 = 0;
    const SI_KERNEL: i32 = 0x80;
    const SI_QUEUE: i32 = -1;
    const SI_TKILL: i32 = -6;

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/signal_generate")]
    fn generate(&[number, info, task, is_for_all, result]: &[u64; 5]) -> i32 {
        let Some(target) = Task::from_kernel(task as *const u8) else { return 0 };
        let code = code_of(info);
        // Other codes come from interrupts or faults: the current task has not sent the signal.
        let is_sent = matches!(code, SI_USER | SI_QUEUE | SI_TKILL);
        emit(&SignalRecord {
            kind: KIND_GENERATED,
            number: number as u32,
            sender: if is_sent { Task::current_owner_untyped() } else { NO_OWNER },
            target: target.owner(),
            target_tid: if is_for_all as u32 != 0 { ANY_THREAD } else { target.tid() },
            code,
            result: result as u32,
            ..now()
        });
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/signal_deliver")]
    fn deliver(&[number, info, action]: &[u64; 3]) -> i32 {
        let Some(number) = delivery::delivered(&ENDED_BY_SIGNAL, number as u32, action) else {
            return 0;
        };
        emit(&SignalRecord {
            kind: KIND_DELIVERED,
            number,
            sender: NO_OWNER,
            target: Task::current_owner_untyped(),
            target_tid: bpf_get_current_pid_tgid() as u32,
            code: code_of(info),
            result: 0,
            ..now()
        });
        0
    }

    /// An empty record with the current time.
    #[inline(always)]
    fn now() -> SignalRecord {
        SignalRecord {
            // SAFETY: the helper has no arguments.
            at_boottime_ns: unsafe { bpf_ktime_get_boot_ns() },
            ..SignalRecord::default()
        }
    }

    /// `kernel/signal.c` passes two small numbers instead of a pointer: `SEND_SIG_NOINFO` for a
    /// process and `SEND_SIG_PRIV` for the kernel.
    #[inline(always)]
    fn code_of(info: u64) -> i32 {
        match info {
            0 => SI_USER,
            1 => SI_KERNEL,
            _ => probe(info as *const u8, constant!(SIGINFO.code)),
        }
    }

    #[inline(always)]
    fn emit(signal: &SignalRecord) {
        loss::event();
        if SIGNALS.output::<SignalRecord>(signal, ring::wake_flags(&SIGNALS)).is_err() {
            loss::ring_full();
        }
    }

    monitor_ebpf::object!();
}
