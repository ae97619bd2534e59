//! TCP by process: passes over sockets, and two rare hooks for those that open and close.
//!
//! Nothing runs when a packet or a call passes. `hold` walks the files of every process and notes
//! on each socket whose it is; that is dear, so `open` then reads the noted sockets directly, as
//! often as asked. `state` sees a process connect, listen, shut down or close; what a closed socket
//! carried is credited to its process, and `destroy` adds what came after.
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
    use monitor_ebpf::abi::tcp::{Closing, Counters, Held, Open, Shared, Totals};
    use monitor_ebpf::kernel::iter::{FileStep, SockStep};
    use monitor_ebpf::kernel::sock::{Sock, Tcp, state as at};
    use monitor_ebpf::kernel::{atomic, loss, table, task::Task};

    /// The loader sets the size.
    #[map]
    static TCP: HashMap<Owner, Totals> = HashMap::with_max_entries(4096, 0);

    /// The loader sets the size. Its entries go when the kernel destroys the socket.
    #[map]
    static CLOSING: HashMap<u64, Closing> = HashMap::with_max_entries(4096, 0);

    /// The loader sets the size. User space fills it.
    #[map]
    static SHARED: HashMap<u64, Shared> = HashMap::with_max_entries(4096, 0);

    const CREATE: u64 = BPF_SK_STORAGE_GET_F_CREATE as u64;
    const NOBODY: Owner = Owner { start_boottime_ns: 0, tgid: 0, zero: 0 };

    /// Whose a socket is; it goes with the socket.
    #[btf_map]
    static HELD: SkStorage<Held> = SkStorage::new();

    /// Connections that listeners got: `hold` has not seen these.
    #[map]
    static ACCEPTED: Array<u64> = Array::with_max_entries(1, 0);

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task_file")]
    fn hold(step: &FileStep) -> i32 {
        if let Some((task, sock)) = step.socket()
            && sock.tcp().is_some()
        {
            note(sock, task.owner(), step.pass());
        }
        0
    }

    /// Notes a holder of a socket; of those that one pass finds, the oldest is its owner.
    #[inline(always)]
    fn note(sock: Sock, holder: Owner, pass: u64) {
        let first = Held { owner: holder, pass, ..Held::default() };
        let map = (&raw const HELD).cast_mut().cast();
        let (sock, value) = (sock.as_ptr().cast_mut().cast(), (&raw const first).cast_mut().cast());
        // SAFETY: the helper copies the value; what it returns lives as long as the socket.
        let held = unsafe { bpf_sk_storage_get(map, sock, value, CREATE) }.cast::<Held>();
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

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/bpf_sk_storage_map")]
    fn open(step: &SockStep<Held>) -> i32 {
        let Some((sock, held)) = step.socket() else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        if sock.released() {
            return 0; // Its row has it.
        }
        let Held { owner, is_shared, .. } = held;
        let cookie = sock.cookie();
        let (counters, credited) = present(sock, tcp, cookie);
        step.write(&Open {
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

    /// What a socket carried, and how much of that rows have already.
    #[inline(always)]
    fn present(sock: Sock, tcp: Tcp, cookie: u64) -> (Counters, Counters) {
        let mut counters = tcp.counters();
        if matches!(sock.state(), at::ESTABLISHED | at::CLOSE_WAIT) {
            return (counters, Counters::default()); // Nobody has shut it down.
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
    fn entry(cookie: u64) -> Option<Closing> {
        // SAFETY: an entry is plain integers; only whoever holds the socket's lock changes it.
        CLOSING.get_ptr(&cookie).map(|entry| unsafe { *entry })
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/inet_sock_set_state")]
    fn state(&[sock, old, new]: &[u64; 3]) -> i32 {
        let (old, new) = (old as u8, new as u8);
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        if new == at::SYN_SENT || new == at::LISTEN {
            // A socket that was disconnected connects again, and counts anew.
            let _ = CLOSING.remove(&sock.cookie());
            note(sock, Task::current().owner(), 0);
        } else if old == at::SYN_RECV && new == at::ESTABLISHED {
            accepted();
        } else if sock.locked_by_process() {
            leave(sock, tcp, (old, new));
        }
        0
    }

    /// A listener got a connection; who will accept it is not known yet.
    #[inline(always)]
    fn accepted() {
        if let Some(count) = ACCEPTED.get_ptr_mut(0) {
            // SAFETY: the element lives as long as the map.
            atomic::add(unsafe { &mut *count }, 1);
        }
    }

    /// A process changes the state of its socket, or finds it changed by packets that waited.
    #[inline(always)]
    fn leave(sock: Sock, tcp: Tcp, (old, new): (u8, u8)) {
        let ends = matches!(new, at::FIN_WAIT1 | at::LAST_ACK | at::CLOSE);
        let shuts = matches!(old, at::ESTABLISHED | at::CLOSE_WAIT) && ends;
        // connect(2) to no address resets the counters next; an error leaves them as they are.
        let resets = shuts && new == at::CLOSE && sock.error() == 0;
        if sock.released() || resets {
            credit_to(Task::current().owner(), sock, tcp);
        } else if shuts {
            // Only shut down: it stays its holder's, and nothing more will be written.
            let sent_bytes = tcp.counters().sent_bytes;
            remember(sock.cookie(), &Closing { sent_bytes, ..Closing::default() });
        }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/tcp_destroy_sock")]
    fn destroy(&[sock]: &[u64; 1]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(tcp) = sock.tcp() else { return 0 };
        let cookie = sock.cookie();
        let closer = entry(cookie).map_or(NOBODY, |closing| closing.owner);
        if closer != NOBODY {
            finish(closer, sock, tcp);
        } else if sock.locked_by_process() {
            credit_to(Task::current().owner(), sock, tcp);
        } // Else nobody ever had it: its listener was closed before it was accepted.
        let _ = CLOSING.remove(&cookie);
        0
    }

    /// Gives a process what no row has yet of a socket, and remembers that.
    #[inline(always)]
    fn credit_to(owner: Owner, sock: Sock, tcp: Tcp) {
        loss::event();
        let cookie = sock.cookie();
        let (counters, mut credited) = present(sock, tcp, cookie);
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
        remember(cookie, &Closing { owner, credited: counters, sent_bytes });
    }

    /// Adds what the kernel still did for a closed socket, if its process is still counted: one
    /// that has ended and was read must not come back for a last acknowledgement.
    #[inline(always)]
    fn finish(owner: Owner, sock: Sock, tcp: Tcp) {
        let (counters, credited) = present(sock, tcp, sock.cookie());
        if let Some(row) = TCP.get_ptr_mut(&owner) {
            add_to(row, sock.is_v6(), &counters.since(&credited));
        }
    }

    #[inline(always)]
    fn remember(cookie: u64, closing: &Closing) {
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
    fn add_to(row: *mut Totals, is_v6: bool, more: &Counters) {
        // SAFETY: rows go only when their process has ended; a late addition harms nobody.
        let Totals { v4, v6 } = unsafe { &mut *row };
        let sum = if is_v6 { v6 } else { v4 };
        atomic::add(&mut sum.sent_bytes, more.sent_bytes);
        atomic::add(&mut sum.received_bytes, more.received_bytes);
        atomic::add(&mut sum.sent_segments, more.sent_segments);
        atomic::add(&mut sum.received_segments, more.received_segments);
        atomic::add(&mut sum.retransmits, more.retransmits);
    }

    monitor_ebpf::object!();
}
