//! TCP by process: iterators over sockets, and two rare hooks for sockets that open and close.
//!
//! Nothing runs per packet or call. `hold` iterates over the files of all processes and stores the
//! owner of each socket; that is expensive, so `open` reads only sockets with an owner, as often as
//! requested. `state` runs when a process connects, listens, shuts down or closes; the traffic of a
//! closed socket is added to its process, and `destroy` adds what came after.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::BPF_SK_STORAGE_GET_F_CREATE;
    use aya_ebpf::btf_maps::SkStorage;
    use aya_ebpf::helpers::generated::bpf_sk_storage_get;
    use aya_ebpf::macros::{btf_map, map};
    use aya_ebpf::maps::{Array, HashMap};
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::tcp::{
        ClosingSocket, Counters, OpenSocket, SharedSocket, SocketHolder, TcpTotals,
    };
    use monitor_ebpf::kernel::sock::{Sock, Tcp, state as at};
    use monitor_ebpf::kernel::{atomic, iter, loss, table, task::Task};

    /// The loader sets the size.
    #[map]
    static TCP: HashMap<Owner, TcpTotals> = HashMap::with_max_entries(4096, 0);

    /// The loader sets the size. Entries are removed when the kernel destroys the socket.
    #[map]
    static CLOSING: HashMap<u64, ClosingSocket> = HashMap::with_max_entries(4096, 0);

    /// The loader sets the size. User space fills it.
    #[map]
    static SHARED: HashMap<u64, SharedSocket> = HashMap::with_max_entries(4096, 0);

    const CREATE: u64 = BPF_SK_STORAGE_GET_F_CREATE as u64;
    const NO_OWNER: Owner = Owner { start_boottime_ns: 0, tgid: 0, zero: 0 };

    /// Owners of sockets, freed with the socket.
    #[btf_map]
    static HOLDERS: SkStorage<SocketHolder> = SkStorage::new();

    /// Connections accepted by listeners, which `hold` has not seen.
    #[map]
    static ACCEPTED: Array<u64> = Array::with_max_entries(1, 0);

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
        if file.is_null() {
            return 0;
        }
        let Some(task) = Task::from_kernel(task) else { return 0 };
        let Some(sock) = Sock::from_file(file) else { return 0 };
        if sock.tcp().is_some() {
            set_holder(sock, task.owner(), meta.session_id);
        }
        0
    }

    /// Stores a holder of a socket; the oldest holder found by one iteration is the owner.
    #[inline(always)]
    fn set_holder(sock: Sock, holder: Owner, pass: u64) {
        let first = SocketHolder { owner: holder, pass, ..SocketHolder::default() };
        let map = (&raw const HOLDERS).cast_mut().cast();
        let (sock, value) = (sock.as_ptr().cast_mut().cast(), (&raw const first).cast_mut().cast());
        // SAFETY: the helper copies the value; what it returns lives as long as the socket.
        let held = unsafe { bpf_sk_storage_get(map, sock, value, CREATE) }.cast::<SocketHolder>();
        if held.is_null() {
            return loss::table_full(); // The socket's own memory limit is reached.
        }
        // SAFETY: not null, and of the size that the map was made with.
        let held = unsafe { &mut *held };
        if held.pass != pass {
            *held = first;
        } else if held.owner != holder {
            held.is_shared = 1;
            if holder < held.owner {
                held.owner = holder;
            }
        }
    }

    /// `struct bpf_iter__bpf_sk_storage_map`.
    #[repr(C)]
    struct SockStep {
        meta: &'static iter::Meta,
        map: *const u8,
        sock: *const u8,
        held: *const SocketHolder,
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/bpf_sk_storage_map")]
    fn open(&SockStep { meta, sock, held, .. }: &SockStep) -> i32 {
        if held.is_null() {
            return 0;
        }
        let Some(sock) = Sock::from_kernel(sock) else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        if sock.released() {
            return 0; // It is in its owner's row.
        }
        // SAFETY: not null, and of the size that the map was made with.
        let SocketHolder { owner, is_shared, .. } = unsafe { *held };
        let cookie = sock.cookie();
        let (counters, credited) = traffic(sock, tcp, cookie);
        let _ = meta.write(&OpenSocket {
            owner,
            cookie,
            counters: counters.since(&credited),
            srtt_us8: tcp.srtt_us8(),
            family: if sock.is_v6() { 6 } else { 4 },
            is_shared,
            zero: 0,
        });
        0
    }

    /// Traffic of a socket, and the part that is in rows already.
    #[inline(always)]
    fn traffic(sock: Sock, tcp: Tcp, cookie: u64) -> (Counters, Counters) {
        let mut counters = tcp.counters();
        if matches!(sock.state(), at::ESTABLISHED | at::CLOSE_WAIT) {
            return (counters, Counters::default()); // Not shut down.
        }
        match entry(cookie) {
            Some(closing) => {
                counters.sent_bytes = closing.sent_bytes;
                (counters, closing.credited)
            }
            None => (counters, Counters::default()),
        }
    }

    #[inline(always)]
    fn entry(cookie: u64) -> Option<ClosingSocket> {
        // SAFETY: an entry is plain integers, changed only under the socket's lock.
        CLOSING.get_ptr(&cookie).map(|entry| unsafe { *entry })
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/inet_sock_set_state")]
    fn state(&[sock, old, new]: &[u64; 3]) -> i32 {
        let (old, new) = (old as u8, new as u8);
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        if new == at::SYN_SENT || new == at::LISTEN {
            // A disconnected socket connects again, and counts from zero.
            let _ = CLOSING.remove(&sock.cookie());
            set_holder(sock, Task::current().owner(), 0);
        } else if old == at::SYN_RECV && new == at::ESTABLISHED {
            count_accepted();
        } else if sock.locked_by_process() {
            close(sock, tcp, (old, new));
        }
        0
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
    fn close(sock: Sock, tcp: Tcp, (old, new): (u8, u8)) {
        let ends = matches!(new, at::FIN_WAIT1 | at::LAST_ACK | at::CLOSE);
        let shuts = matches!(old, at::ESTABLISHED | at::CLOSE_WAIT) && ends;
        // connect(2) to no address resets the counters next; an error leaves them as they are.
        let resets = shuts && new == at::CLOSE && sock.error() == 0;
        if sock.released() || resets {
            credit_to(Task::current().owner(), sock, tcp);
        } else if shuts {
            // Only shut down: the holder keeps it, and nothing more will be written.
            let sent_bytes = tcp.counters().sent_bytes;
            remember(sock.cookie(), &ClosingSocket { sent_bytes, ..ClosingSocket::default() });
        }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/tcp_destroy_sock")]
    fn destroy(&[sock]: &[u64; 1]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        let cookie = sock.cookie();
        let closer = entry(cookie).map_or(NO_OWNER, |closing| closing.owner);
        if closer != NO_OWNER {
            finish(closer, sock, tcp);
        } else if sock.locked_by_process() {
            credit_to(Task::current().owner(), sock, tcp);
        } // Else no process had it: its listener was closed before it was accepted.
        let _ = CLOSING.remove(&cookie);
        0
    }

    /// Adds to a process the traffic of a socket that is not in any row yet, and remembers that.
    #[inline(always)]
    fn credit_to(owner: Owner, sock: Sock, tcp: Tcp) {
        loss::event();
        let cookie = sock.cookie();
        let (counters, mut credited) = traffic(sock, tcp, cookie);
        let is_v6 = sock.is_v6();
        // SAFETY: user space replaces an entry as a whole.
        if let Some(shared) = SHARED.get_ptr(&cookie).map(|shared| unsafe { *shared }) {
            credited = shared.kept;
            if shared.owner != owner {
                add(&shared.owner, is_v6, &shared.seen.since(&shared.kept));
                credited = shared.seen;
            }
            let _ = SHARED.remove(&cookie);
        }
        add(&owner, is_v6, &counters.since(&credited));
        let sent_bytes = counters.sent_bytes;
        remember(cookie, &ClosingSocket { owner, credited: counters, sent_bytes });
    }

    /// Adds the traffic of a socket after its close, if its process still has a row: the row of an
    /// ended process that was read must not be created again for a last acknowledgement.
    #[inline(always)]
    fn finish(owner: Owner, sock: Sock, tcp: Tcp) {
        let (counters, credited) = traffic(sock, tcp, sock.cookie());
        if let Some(row) = TCP.get_ptr_mut(&owner) {
            add_to(row, sock.is_v6(), &counters.since(&credited));
        }
    }

    #[inline(always)]
    fn remember(cookie: u64, closing: &ClosingSocket) {
        if CLOSING.insert(&cookie, closing, 0).is_err() {
            loss::table_full();
        }
    }

    #[inline(always)]
    fn add(owner: &Owner, is_v6: bool, more: &Counters) {
        match table::row(&TCP, owner) {
            Some(row) => add_to(row, is_v6, more),
            None => loss::table_full(),
        }
    }

    #[inline(always)]
    fn add_to(row: *mut TcpTotals, is_v6: bool, more: &Counters) {
        // SAFETY: rows are removed only after their process ended; a late addition is harmless.
        let TcpTotals { v4, v6 } = unsafe { &mut *row };
        let sum = if is_v6 { v6 } else { v4 };
        atomic::add(&mut sum.sent_bytes, more.sent_bytes);
        atomic::add(&mut sum.received_bytes, more.received_bytes);
        atomic::add(&mut sum.sent_segments, more.sent_segments);
        atomic::add(&mut sum.received_segments, more.received_segments);
        atomic::add(&mut sum.retransmits, more.retransmits);
    }

    monitor_ebpf::object!();
}
