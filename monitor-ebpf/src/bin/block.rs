//! Block I/O by process: who submitted a request, and what became of it.
//!
//! The owner is taken where the request is made, in the submitter's own context; where it is
//! issued to the device, most of the time some kernel worker runs. Bytes and latency are taken at
//! completion, in an interrupt, so a table of requests in flight connects the two.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
    use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::HashMap;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::block::{Dirtier, Flight, KINDS, Place, Timed, Use, WRITE};
    use monitor_ebpf::abi::histogram::{BUCKETS, Histogram, bucket};
    use monitor_ebpf::kernel::request::{Bio, Inode, Request};
    use monitor_ebpf::kernel::{atomic, constant, forgotten, loss, table, task::Task};

    /// Set by the loader: 1 to credit written pages to who dirtied them.
    #[unsafe(no_mangle)]
    static WRITE_BACK: u32 = 0;

    // The loader sets the sizes. Tables that a host may never use take memory as they fill.
    #[map]
    static USED: HashMap<Place, Use> = HashMap::with_max_entries(4096, 0);
    #[map]
    static LATENCY: HashMap<Timed, Histogram> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);
    #[map]
    static IN_FLIGHT: HashMap<u64, Flight> = HashMap::with_max_entries(4096, 0);
    #[map]
    static QUEUED: HashMap<u64, Flight> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);
    #[map]
    static DIRTIED: HashMap<u64, Dirtier> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// What a new row of [`LATENCY`] is: too large for the stack.
    static NO_TIMES: Histogram = Histogram::EMPTY;

    /// Most bios at the front of a request that are looked at for the one it was made of: others
    /// get there by front merges, which happen to writes in descending order.
    const FRONT_MERGES: usize = 16;

    /// 6.5 and later: the request is ready, and the submitter is who runs here.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_io_start")]
    fn start(&[request]: &[u64; 1]) -> i32 {
        let request = Request::from_kernel(request as *const u8);
        if let Some(kind) = request.kind() {
            let (submitter, bio) = (Task::current().owner(), request.bio());
            depart(&IN_FLIGHT, request.address(), &Made { submitter, kind, bio });
        }
        0
    }

    /// 5.11 to 6.4: the kernel has found a request for this bio, but does not tell which.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_getrq")]
    fn getrq(&[bio]: &[u64; 1]) -> i32 {
        queue(Bio::from_kernel(bio as *const u8))
    }

    /// Up to 5.10 the queue is the first argument of block tracepoints, and the bio the second.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_getrq")]
    fn getrq_of_queue(&[_, bio]: &[u64; 2]) -> i32 {
        queue(Bio::from_kernel(bio as *const u8))
    }

    #[inline(always)]
    fn queue(bio: Bio) -> i32 {
        if let Some(kind) = bio.kind() {
            let submitter = Task::current_owner_untyped();
            depart(&QUEUED, bio.address(), &Made { submitter, kind, bio });
        }
        0
    }

    /// A request as it is made.
    struct Made {
        submitter: Owner,
        kind: u32,
        bio: Bio,
    }

    /// Notes who sent what on its way. The same address may be there from a request that was
    /// never completed; it is replaced.
    #[inline(always)]
    fn depart(table: &HashMap<u64, Flight>, address: u64, made: &Made) {
        loss::event();
        let flight = Flight { owner: owner(made), start_ns: now(), kind: made.kind, zero: 0 };
        if table.insert(&address, &flight, 0).is_err() {
            loss::table_full();
        }
    }

    /// Whose request it is: the dirtier's if that is asked for and known, else the submitter's.
    #[inline(always)]
    fn owner(made: &Made) -> Owner {
        if constant!(WRITE_BACK) != 0
            && made.kind == WRITE
            && let Some(file) = made.bio.file()
            && let Some(row) = DIRTIED.get_ptr(&file.address())
        {
            // SAFETY: the row is plain integers; one removed meanwhile is another file's at worst.
            return unsafe { (*row).owner };
        }
        made.submitter
    }

    /// Part of a request, or the rest of it, is done: `(request, error, bytes)`. The type of the
    /// error changed in 5.16 and is not looked at.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_rq_complete")]
    fn complete(&[request, _, bytes]: &[u64; 3]) -> i32 {
        let request = Request::from_kernel(request as *const u8);
        let bytes = bytes as u32;
        // The request still says what was left before. What `block_io_done` would say: but it is
        // silent where a disk's statistics are switched off.
        let is_last = bytes >= request.bytes_left();
        let Some(flight) = arrive(request, is_last) else { return 0 };
        let (major, minor) = request.disk();
        count(&Place { owner: flight.owner, major, minor }, flight.kind, bytes, is_last);
        if is_last && flight.kind <= WRITE {
            time(&Timed { owner: flight.owner, kind: flight.kind, zero: 0 }, flight.start_ns);
        }
        0
    }

    /// What is known of a request; forgotten if this is the last of it.
    #[inline(always)]
    fn arrive(request: Request, is_last: bool) -> Option<Flight> {
        let address = request.address();
        if let Some(row) = IN_FLIGHT.get_ptr(&address) {
            // SAFETY: only the request's own completion removes the row.
            let flight = unsafe { *row };
            if is_last {
                let _ = IN_FLIGHT.remove(&address);
            }
            return Some(flight);
        }
        let flight = unqueue(request.bio())?;
        if !is_last && IN_FLIGHT.insert(&address, &flight, 0).is_err() {
            loss::table_full();
        }
        Some(flight)
    }

    /// Before 6.5: what was noted of the bio that the request was made of, which goes.
    #[inline(always)]
    fn unqueue(first: Bio) -> Option<Flight> {
        let mut bio = first;
        for _ in 0..FRONT_MERGES {
            let address = bio.address();
            if address == 0 {
                break;
            }
            if let Some(row) = QUEUED.get_ptr(&address) {
                // SAFETY: only the completion of the bio's request removes the row.
                let flight = unsafe { *row };
                let _ = QUEUED.remove(&address);
                return Some(flight);
            }
            bio = bio.next();
        }
        None
    }

    #[inline(always)]
    fn count(place: &Place, kind: u32, bytes: u32, is_last: bool) {
        let Some(row) = table::row(&USED, place) else { return loss::table_full() };
        let kind = kind as usize & (KINDS - 1);
        // SAFETY: rows are removed only after their process has ended.
        let used = unsafe { &mut *row };
        atomic::add(&mut used.bytes[kind], u64::from(bytes));
        atomic::add(&mut used.requests[kind], u64::from(is_last));
    }

    #[inline(always)]
    fn time(timed: &Timed, start_ns: u64) {
        let Some(row) = table::row_like(&LATENCY, timed, &NO_TIMES) else {
            return loss::table_full();
        };
        let index = forgotten(bucket(now() - start_ns));
        if index < BUCKETS {
            // SAFETY: rows are removed only after their process has ended.
            atomic::add(unsafe { &mut (*row).counts[index] }, 1);
        }
    }

    /// A page of a file became dirty: `(folio, mapping)`, or `(page, mapping)` before 5.18.
    /// Regular files only: the pages of a block device hold everybody's metadata.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/writeback_dirty_folio")]
    fn dirty(&[_, mapping]: &[u64; 2]) -> i32 {
        let Some(file) = Inode::of_mapping(mapping as *const u8) else { return 0 };
        if file.is_regular() {
            let dirtier = Dirtier { owner: Task::current_owner_untyped(), at_ns: now() };
            if DIRTIED.insert(&file.address(), &dirtier, 0).is_err() {
                loss::table_full();
            }
        }
        0
    }

    #[inline(always)]
    fn now() -> u64 {
        // SAFETY: the helper has no arguments.
        unsafe { bpf_ktime_get_ns() }
    }

    monitor_ebpf::object!();
}
