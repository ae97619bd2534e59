//! TCP by process: iterators over sockets, and two rare hooks for sockets that open and close.
//!
//! Nothing runs per packet or call. `hold` iterates over the files of all processes and stores the
//! owner of each socket; that is expensive, so `open` reads only sockets with an owner, as often as
//! requested. `open` adds what each socket has carried since the last time to the row of its owner.
//! `state` runs when a process connects, listens, shuts down or closes; the process that closes a
//! socket gets the rest of its traffic, and `destroy` adds what came after.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::BPF_SK_STORAGE_GET_F_CREATE;
    use aya_ebpf::btf_maps::SkStorage;
    use aya_ebpf::macros::{btf_map, map};
    use aya_ebpf::maps::{Array, HashMap};
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::tcp::{
        CLOSED, Counters, OPEN, OpenSocket, SHUT, SocketHolder, TcpTotals,
    };
    use monitor_ebpf::kernel::sock::{Sock, state as at};
    use monitor_ebpf::kernel::stream::Stream;
    use monitor_ebpf::kernel::{atomic, iter, loss, storage, table, task::Task};

    /// The loader sets the size.
    #[map]
    static TCP: HashMap<Owner, TcpTotals> = HashMap::with_max_entries(4096, 0);

    const CREATE: u64 = BPF_SK_STORAGE_GET_F_CREATE as u64;

    /// Owners of sockets and the traffic that is in rows, freed with the socket.
    #[btf_map]
    static HOLDERS: SkStorage<SocketHolder> = SkStorage::new();

    /// Connections accepted by listeners, which `hold` has not seen.
    #[map]
    static ACCEPTED: Array<u64> = Array::with_max_entries(1, 0);

    /// The last iteration of `hold`.
    #[map]
    static SCANNED: Array<u64> = Array::with_max_entries(1, 0);

    /// What is stored of a socket, without its owner. `CREATE` makes it for a new one; `None` if
    /// there is none, or the memory that the socket may take is used up.
    #[inline(always)]
    fn holder(sock: Sock, flags: u64) -> Option<&'static mut SocketHolder> {
        let map = (&raw const HOLDERS).cast();
        let held = storage::of_socket::<SocketHolder>(map, sock.as_ptr().cast_mut(), flags)?;
        // SAFETY: lives as long as the socket; writers tolerate each other.
        Some(unsafe { &mut *held })
    }

    /// `struct bpf_iter__task_file`.
    #[repr(C)]
    struct FileStep {
        meta: &'static iter::Meta,
        task: *const u8,
        fd: u64,
        file: *const u8,
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task_file")]
    fn hold(&FileStep { meta, task, file, .. }: &FileStep) -> i32 {
        if meta.seq_num == 0 {
            // Before any socket: one that connects during the scan is of this scan.
            set_scanned(meta.session_id);
        }
        if file.is_null() {
            return 0;
        }
        let Some(task) = Task::from_kernel(task) else { return 0 };
        let Some(sock) = Sock::from_file(file) else { return 0 };
        if Stream::from_sock(sock).is_some() {
            set_holder(sock, task.owner(), meta.session_id);
        }
        0
    }

    #[inline(always)]
    fn set_scanned(pass: u64) {
        if let Some(scanned) = SCANNED.get_ptr_mut(0) {
            // SAFETY: the element lives as long as the map, and one iteration runs at a time.
            unsafe { *scanned = pass };
        }
    }

    #[inline(always)]
    fn scanned() -> u64 {
        // SAFETY: the element lives as long as the map.
        SCANNED.get_ptr(0).map_or(0, |scanned| unsafe { *scanned })
    }

    /// Stores a holder of a socket; the oldest holder found by one iteration is the owner.
    #[inline(always)]
    fn set_holder(sock: Sock, holder: Owner, pass: u64) {
        let Some(held) = holder_of(sock) else { return };
        if held.pass != pass || held.owner.tgid == 0 {
            (held.owner, held.pass, held.is_shared) = (holder, pass, 0);
        } else if held.owner != holder {
            held.is_shared = 1;
            if holder < held.owner {
                held.owner = holder;
            }
        }
    }

    /// What is stored of a socket, made if it is new.
    #[inline(always)]
    fn holder_of(sock: Sock) -> Option<&'static mut SocketHolder> {
        let held = holder(sock, CREATE);
        if held.is_none() {
            loss::table_full(); // The socket's own memory limit is reached.
        }
        held
    }

    /// `struct bpf_iter__bpf_sk_storage_map`.
    #[repr(C)]
    struct SockStep {
        meta: &'static iter::Meta,
        map: *const u8,
        sock: *const u8,
        held: *mut SocketHolder,
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/bpf_sk_storage_map")]
    fn open(&SockStep { meta, sock, held, .. }: &SockStep) -> i32 {
        if held.is_null() {
            return 0;
        }
        let Some(sock) = Sock::from_kernel(sock) else { return 0 };
        let Some(stream) = Stream::from_sock(sock) else { return 0 };
        // SAFETY: not null, and of the size that the map was made with; the socket lives.
        let held = unsafe { &mut *held };
        // A released one is in the row of the process that closed it. One that the last iteration
        // did not find is on its way between processes: it waits for the next.
        if sock.released() || held.owner.tgid == 0 || held.pass != scanned() {
            return 0;
        }
        let owner = held.owner;
        if stream.is_counted() {
            let now = traffic(sock, stream, held);
            credit(&owner, sock.is_v6(), &mut held.credited, &now);
        }
        meta.write(&OpenSocket {
            owner,
            srtt_us8: stream.srtt_us8(),
            is_shared: held.is_shared,
            is_uncounted: u32::from(!stream.is_counted() && is_connection(sock)),
            zero: 0,
        });
        0
    }

    /// A listener carries nothing, whatever its protocol.
    #[inline(always)]
    fn is_connection(sock: Sock) -> bool {
        !matches!(sock.state(), at::LISTEN | at::CLOSE)
    }

    /// Traffic of a socket so far, without its FIN.
    #[inline(always)]
    fn traffic(sock: Sock, stream: Stream, held: &SocketHolder) -> Counters {
        let mut now = stream.counters();
        if held.stage != OPEN && !matches!(sock.state(), at::ESTABLISHED | at::CLOSE_WAIT) {
            now.sent_bytes = held.written;
        }
        now
    }

    /// Adds to a process the traffic of a socket that is in no row yet.
    #[inline(always)]
    fn credit(owner: &Owner, is_v6: bool, credited: &mut Counters, now: &Counters) {
        if !has_grown(credited, now) {
            return;
        }
        match table::row(&TCP, owner) {
            Some(row) => add_to(row, is_v6, credited, now),
            None => loss::table_full(), // It stays for the next reading.
        }
    }

    #[inline(always)]
    fn has_grown(credited: &Counters, now: &Counters) -> bool {
        now.sent_bytes > credited.sent_bytes
            || now.received_bytes > credited.received_bytes
            || now.sent_segments > credited.sent_segments
            || now.received_segments > credited.received_segments
            || now.retransmits > credited.retransmits
    }

    #[inline(always)]
    fn add_to(row: *mut TcpTotals, is_v6: bool, credited: &mut Counters, now: &Counters) {
        // SAFETY: rows are removed only after their process ended; a late addition is harmless.
        let TcpTotals { v4, v6 } = unsafe { &mut *row };
        let sum = if is_v6 { v6 } else { v4 };
        grow(&mut sum.sent_bytes, &mut credited.sent_bytes, now.sent_bytes);
        grow(&mut sum.received_bytes, &mut credited.received_bytes, now.received_bytes);
        grow(&mut sum.sent_segments, &mut credited.sent_segments, now.sent_segments);
        grow(&mut sum.received_segments, &mut credited.received_segments, now.received_segments);
        grow(&mut sum.retransmits, &mut credited.retransmits, now.retransmits);
    }

    /// Adds the growth of a counter. A counter that is less was reset by the kernel, or read before
    /// another CPU credited more. Two CPUs at once may add more and then subtract the difference:
    /// the sum of what they add is exact, because each exchange starts where the other ended.
    #[inline(always)]
    fn grow(sum: &mut u64, credited: &mut u64, now: u64) {
        if now > *credited {
            atomic::add(sum, now.wrapping_sub(atomic::exchange(credited, now)));
        }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/inet_sock_set_state")]
    fn state(&[sock, old, new]: &[u64; 3]) -> i32 {
        let (old, new) = (old as u8, new as u8);
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        if old == at::SYN_RECV && new == at::ESTABLISHED {
            count_accepted();
            return 0;
        }
        let Some(stream) = Stream::from_sock(sock) else { return 0 };
        if new == at::SYN_SENT || new == at::LISTEN {
            restart(sock);
        } else if sock.locked_by_process() {
            close(sock, stream, (old, new));
        }
        0
    }

    /// A process connects or listens. A disconnected socket counts from zero again.
    #[inline(always)]
    fn restart(sock: Sock) {
        if let Some(held) = holder_of(sock) {
            *held = SocketHolder {
                owner: Task::current().owner(),
                pass: scanned(),
                ..SocketHolder::default()
            };
        }
    }

    /// Counts a connection of a listener; the process that will accept it is not known yet.
    #[inline(always)]
    fn count_accepted() {
        if let Some(count) = ACCEPTED.get_ptr_mut(0) {
            // SAFETY: the element lives as long as the map.
            atomic::add(unsafe { &mut *count }, 1);
        }
    }

    /// A process changes the state of its socket, or processes packets from its backlog that do.
    #[inline(always)]
    fn close(sock: Sock, stream: Stream, (old, new): (u8, u8)) {
        let ends = matches!(new, at::FIN_WAIT1 | at::LAST_ACK | at::CLOSE);
        let shuts = matches!(old, at::ESTABLISHED | at::CLOSE_WAIT) && ends;
        // connect(2) to no address resets the counters next; an error leaves them as they are.
        let resets = shuts && new == at::CLOSE && sock.error() == 0;
        let is_released = sock.released();
        if !is_released && !shuts || !stream.is_counted() {
            return;
        }
        let Some(held) = holder_of(sock) else { return };
        let now = traffic(sock, stream, held);
        held.written = now.sent_bytes; // The FIN is not queued yet, or `written` is what it was.
        if is_released || resets {
            loss::event();
            held.owner = Task::current().owner();
            held.stage = CLOSED;
            credit(&held.owner, sock.is_v6(), &mut held.credited, &now);
        } else {
            held.stage = SHUT; // The holder keeps it, and nothing more will be written.
        }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/tcp_destroy_sock")]
    fn destroy(&[sock]: &[u64; 1]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(stream) = Stream::from_sock(sock) else { return 0 };
        let is_v6 = sock.is_v6();
        let Some(held) = holder(sock, 0) else {
            return destroy_unseen(sock, stream, is_v6);
        };
        let now = traffic(sock, stream, held);
        if held.stage == CLOSED {
            finish(is_v6, held, &now);
        } else if sock.locked_by_process() {
            credit(&Task::current().owner(), is_v6, &mut held.credited, &now);
        }
        0
    }

    /// A socket that was never stored: that of a process, if one has it locked. Else no process had
    /// it: its listener was closed before it was accepted.
    #[inline(always)]
    fn destroy_unseen(sock: Sock, stream: Stream, is_v6: bool) -> i32 {
        if sock.locked_by_process() {
            let mut credited = Counters::ZERO;
            credit(&Task::current().owner(), is_v6, &mut credited, &stream.counters());
        }
        0
    }

    /// Adds the traffic of a socket after its close, if its process still has a row: the row of an
    /// ended process that was read must not be created again for a last acknowledgement.
    #[inline(always)]
    fn finish(is_v6: bool, held: &mut SocketHolder, now: &Counters) {
        if let Some(row) = TCP.get_ptr_mut(&held.owner) {
            add_to(row, is_v6, &mut held.credited, now);
        }
    }

    monitor_ebpf::object!();
}
