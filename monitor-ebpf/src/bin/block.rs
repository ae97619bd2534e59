//! Block I/O by process: the submitter of each request, and its completion.
//!
//! The owner is read where the request is created, in the context of the submitter; when it is
//! issued to the device, usually a kernel worker is current. Bytes and latency are read at
//! completion, in an interrupt, so a table of requests in flight connects the two. A disk without
//! requests has its bios counted as they are submitted.
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
    use monitor_ebpf::abi::block::{
        Dirtier, DiskUsage, InFlightRequest, KINDS, LatencyKey, OwnerDisk, WRITE,
    };
    use monitor_ebpf::abi::histogram::{BUCKETS, Histogram, bucket};
    use monitor_ebpf::kernel::request::{Bio, Inode, Request};
    use monitor_ebpf::kernel::{atomic, constant, loss, table, task::Task, without_bounds};

    /// Set by the loader: 1 to attribute written pages to the process that dirtied them.
    #[unsafe(no_mangle)]
    static WRITE_BACK: u32 = 0;

    // The loader sets the sizes. Tables that a host may never use take memory as they fill.
    #[map]
    static USED: HashMap<OwnerDisk, DiskUsage> = HashMap::with_max_entries(4096, 0);
    #[map]
    static LATENCY: HashMap<LatencyKey, Histogram> =
        HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);
    #[map]
    static IN_FLIGHT: HashMap<u64, InFlightRequest> = HashMap::with_max_entries(4096, 0);
    #[map]
    static QUEUED: HashMap<u64, InFlightRequest> =
        HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);
    #[map]
    static STACKED: HashMap<u64, u64> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);
    #[map]
    static DIRTIED: HashMap<u64, Dirtier> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// Initial row of [`LATENCY`]: too large for the stack.
    static EMPTY_HISTOGRAM: Histogram = Histogram::EMPTY;

    /// Maximum bios of a request that are checked for the one it was created from: others precede
    /// it after front merges, which happen to writes in descending order.
    const FRONT_MERGES: usize = 16;

    /// 6.5 and later: the request is ready, and the submitter is the current task.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_io_start")]
    fn start(&[request]: &[u64; 1]) -> i32 {
        let request = Request::from_kernel(request as *const u8);
        if let Some(kind) = request.kind() {
            let (submitter, bio) = (Task::current().owner(), request.bio());
            insert(&IN_FLIGHT, request.address(), &NewRequest { submitter, kind, bio });
        }
        0
    }

    /// 5.11 to 6.4: the kernel has allocated a request for this bio, but does not pass it.
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
            insert(&QUEUED, bio.address(), &NewRequest { submitter, kind, bio });
        }
        0
    }

    /// A bio is submitted, to a disk without requests: the only place where it is seen. A bio that
    /// such a disk passes on is not reported again, or is another one.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_bio_queue")]
    fn bio(&[bio]: &[u64; 1]) -> i32 {
        let bio = Bio::from_kernel(bio as *const u8);
        let Some((major, minor)) = bio.disk_without_requests() else { return 0 };
        let disk = u64::from(major) << 32 | u64::from(minor);
        if STACKED.get_ptr(&disk).is_some() {
            return 0;
        }
        if let Some(kind) = bio.kind() {
            loss::event();
            let submitter = Task::current_owner_untyped();
            let owner = owner(&NewRequest { submitter, kind, bio });
            count(&OwnerDisk { owner, major, minor }, kind, bio.bytes(), true);
        }
        0
    }

    /// A new request.
    struct NewRequest {
        submitter: Owner,
        kind: u32,
        bio: Bio,
    }

    /// Records a request in flight. An entry with the same address, from a request that was never
    /// completed, is replaced.
    #[inline(always)]
    fn insert(table: &HashMap<u64, InFlightRequest>, address: u64, new: &NewRequest) {
        loss::event();
        let flight =
            InFlightRequest { owner: owner(new), start_ns: now(), kind: new.kind, zero: 0 };
        if table.insert(&address, &flight, 0).is_err() {
            loss::table_full();
        }
    }

    /// Owner of a request: the process that dirtied the file if requested and known, else the
    /// submitter.
    #[inline(always)]
    fn owner(new: &NewRequest) -> Owner {
        if constant!(WRITE_BACK) != 0
            && new.kind == WRITE
            && let Some(file) = new.bio.file()
            && let Some(row) = DIRTIED.get_ptr(&file.address())
        {
            // SAFETY: the row is plain integers; one removed meanwhile is another file's at worst.
            return unsafe { (*row).owner };
        }
        new.submitter
    }

    /// Part of a request, or the rest of it, is complete: `(request, error, bytes)`. The type of
    /// the error changed in 5.16; it is not used.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/block_rq_complete")]
    fn complete(&[request, _, bytes]: &[u64; 3]) -> i32 {
        let request = Request::from_kernel(request as *const u8);
        let bytes = bytes as u32;
        // The request still has the bytes left before this completion. `block_io_done` would report
        // the end, but not if the disk's statistics are disabled.
        let is_last = bytes >= request.bytes_left();
        let Some(flight) = take(request, is_last) else { return 0 };
        let (major, minor) = request.disk();
        count(&OwnerDisk { owner: flight.owner, major, minor }, flight.kind, bytes, is_last);
        if is_last && flight.kind <= WRITE {
            record_latency(
                &LatencyKey { owner: flight.owner, kind: flight.kind, zero: 0 },
                flight.start_ns,
            );
        }
        0
    }

    /// The entry of a request, removed if this is its last completion.
    #[inline(always)]
    fn take(request: Request, is_last: bool) -> Option<InFlightRequest> {
        let address = request.address();
        if let Some(row) = IN_FLIGHT.get_ptr(&address) {
            // SAFETY: only the request's own completion removes the row.
            let flight = unsafe { *row };
            if is_last {
                let _ = IN_FLIGHT.remove(&address);
            }
            return Some(flight);
        }
        let flight = take_queued(request.bio())?;
        if !is_last && IN_FLIGHT.insert(&address, &flight, 0).is_err() {
            loss::table_full();
        }
        Some(flight)
    }

    /// Before 6.5: removes and returns the entry of the bio that the request was created from.
    #[inline(always)]
    fn take_queued(first: Bio) -> Option<InFlightRequest> {
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
    fn count(key: &OwnerDisk, kind: u32, bytes: u32, is_last: bool) {
        let Some(row) = table::row(&USED, key) else { return loss::table_full() };
        let kind = kind as usize & (KINDS - 1);
        // SAFETY: rows are removed only after their process has ended.
        let used = unsafe { &mut *row };
        atomic::add(&mut used.bytes[kind], u64::from(bytes));
        atomic::add(&mut used.requests[kind], u64::from(is_last));
    }

    #[inline(always)]
    fn record_latency(key: &LatencyKey, start_ns: u64) {
        let Some(row) = table::row_like(&LATENCY, key, &EMPTY_HISTOGRAM) else {
            return loss::table_full();
        };
        let index = without_bounds(bucket(now() - start_ns));
        if index < BUCKETS {
            // SAFETY: rows are removed only after their process has ended.
            atomic::add(unsafe { &mut (*row).counts[index] }, 1);
        }
    }

    /// A page of a file became dirty: `(folio, mapping)`, or `(page, mapping)` before 5.18.
    /// Regular files only: the pages of a block device hold metadata of all processes.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/writeback_dirty_folio")]
    fn dirty(&[_, mapping]: &[u64; 2]) -> i32 {
        let Some(file) = Inode::from_mapping(mapping as *const u8) else { return 0 };
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
