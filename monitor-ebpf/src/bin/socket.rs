//! Payload of every socket by process: one hook for each direction, since 6.3.
//!
//! Both run in the calling process after the call, with its result: the bytes transferred, or an
//! error. They cover all families, and UDP, which the kernel does not count by socket. What is
//! taken from TCP without such a call, by splice(2), sendfile(2) or a mapping, is seen where the
//! kernel adjusts the space of the receiver, which every way of taking ends with; so the bytes
//! received on TCP sockets are counted there, for calls too.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::BPF_SK_STORAGE_GET_F_CREATE;
    use aya_ebpf::btf_maps::SkStorage;
    use aya_ebpf::macros::{btf_map, map};
    use monitor_ebpf::kernel::payload::{Direction, Sockets, add_received, count, count_call};
    use monitor_ebpf::kernel::{iter, loss, sock::Sock, storage, stream::Stream, task::Task};

    /// Payload by process.
    #[map]
    static SOCKETS: Sockets = Sockets::with_max_entries(4096, 0);

    /// Bytes taken from each TCP socket that are in rows, or were taken before.
    #[btf_map]
    static TAKEN: SkStorage<u64> = SkStorage::new();

    /// Bytes taken from a socket, `CREATE`d as zero if they are not stored.
    #[inline(always)]
    fn taken_of(sock: Sock, flags: u64) -> Option<&'static mut u64> {
        let taken =
            storage::of_socket::<u64>((&raw const TAKEN).cast(), sock.as_ptr().cast_mut(), flags)?;
        // SAFETY: lives as long as the socket, and is written under its lock.
        Some(unsafe { &mut *taken })
    }

    const CREATE: u64 = BPF_SK_STORAGE_GET_F_CREATE as u64;

    /// `struct bpf_iter__task_file`.
    #[repr(C)]
    struct FileStep {
        meta: &'static iter::Meta,
        task: *const u8,
        fd: u64,
        file: *const u8,
    }

    /// Before the hooks: stores what was taken from the sockets that are open.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task_file")]
    fn mark(&FileStep { task, file, .. }: &FileStep) -> i32 {
        if task.is_null() || file.is_null() {
            return 0;
        }
        let Some(sock) = Sock::from_file(file) else { return 0 };
        let taken = Stream::from_sock(sock).and_then(Stream::taken);
        if let Some(taken) = taken
            && let Some(stored) = taken_of(sock, CREATE)
        {
            *stored = taken;
        }
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sock_send_length")]
    fn send(&[sock, result, _]: &[u64; 3]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        count(&SOCKETS, &Task::current().owner(), sock.traffic(), Direction::Sent, result as i32);
        0
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sock_recv_length")]
    fn receive(&[sock, result, flags]: &[u64; 3]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let direction = Direction::Received(flags as u32);
        let (owner, result) = (Task::current().owner(), result as i32);
        // What is taken from these is counted by `take`.
        if Stream::from_sock(sock).and_then(Stream::taken).is_some() {
            count_call(&SOCKETS, &owner, direction, result);
        } else {
            count(&SOCKETS, &owner, sock.traffic(), direction, result);
        }
        0
    }

    /// In the place of `receive`, without `take`: for kernels that let no program `mark` sockets.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sock_recv_length")]
    fn receive_call(&[sock, result, flags]: &[u64; 3]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let direction = Direction::Received(flags as u32);
        count(&SOCKETS, &Task::current().owner(), sock.traffic(), direction, result as i32);
        0
    }

    /// A process has taken payload from a TCP socket, whose lock it holds.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/tcp_rcv_space_adjust")]
    fn take(&[sock]: &[u64; 1]) -> i32 {
        let Some(sock) = Sock::from_kernel(sock as *const u8) else { return 0 };
        let Some(taken) = Stream::from_sock(sock).and_then(Stream::taken) else { return 0 };
        if !sock.locked_by_process() {
            return 0;
        }
        let Some(stored) = taken_of(sock, CREATE) else {
            loss::table_full(); // The socket's own memory limit is reached.
            return 0;
        };
        // A disconnected socket counts from zero again.
        let more = if taken < *stored { taken } else { taken - *stored };
        *stored = taken;
        if more > 0 {
            add_received(&SOCKETS, &Task::current().owner(), more);
        }
        0
    }

    monitor_ebpf::object!();
}
