//! Payload of every socket by process: one hook for each direction, since 6.3.
//!
//! Both run in the calling process after the call, with its result: the bytes transferred, or an
//! error. They cover all families, and UDP, which the kernel does not count by socket.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::macros::map;
    use monitor_ebpf::kernel::payload::{Direction, Sockets, count};
    use monitor_ebpf::kernel::{sock::Sock, task::Task};

    /// Payload by process.
    #[map]
    static SOCKETS: Sockets = Sockets::with_max_entries(4096, 0);

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
        count(&SOCKETS, &Task::current().owner(), sock.traffic(), direction, result as i32);
        0
    }

    monitor_ebpf::object!();
}
