//! Payload of every socket by process, before 6.3: kernel functions are probed.
//!
//! The functions of IP, UNIX, netlink and packet sockets, which have the same arguments; sockets of
//! other families are not counted. (`sock_sendmsg`, which calls them, is inlined into some system
//! calls.) Each function has an `fexit` program; the entry and return probes are shared. The loader
//! attaches one kind.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::helpers::bpf_get_current_pid_tgid;
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::HashMap;
    use monitor_ebpf::abi::offset::ABSENT;
    use monitor_ebpf::abi::socket::RegisterOffsets;
    use monitor_ebpf::kernel::payload::{Direction, Sockets, count};
    use monitor_ebpf::kernel::sock::traffic_of;
    use monitor_ebpf::kernel::{constant, loss, probe, task::Task};

    /// Payload by process.
    #[map]
    static SOCKETS: Sockets = Sockets::with_max_entries(4096, 0);

    /// Set by the loader.
    #[unsafe(no_mangle)]
    static REGISTERS: RegisterOffsets = RegisterOffsets::ABSENT;

    /// A call in progress: its socket and flags.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Call {
        socket: u64,
        flags: u64,
    }

    /// Calls by thread: each has at most one. The loader sets the size.
    #[map]
    static CALLS: HashMap<u64, Call> = HashMap::with_max_entries(4096, 0);

    #[inline(always)]
    fn count_call(socket: u64, direction: Direction, result: u64) -> i32 {
        let traffic = traffic_of(socket as *const u8);
        count(&SOCKETS, &Task::current_owner_untyped(), traffic, direction, result as i32);
        0
    }

    /// Declares the `fexit` programs of functions that send.
    macro_rules! exit_of_send {
        ($($program:ident = $section:literal;)+) => {$(
            // match-proto: int (struct socket *sock, struct msghdr *msg, size_t size)
            #[unsafe(no_mangle)]
            #[unsafe(link_section = $section)]
            fn $program(&[socket, _, _, result]: &[u64; 4]) -> i32 {
                count_call(socket, Direction::Sent, result)
            }
        )+};
    }

    /// Declares the `fexit` programs of functions that receive.
    macro_rules! exit_of_receive {
        ($($program:ident = $section:literal;)+) => {$(
            // match-proto: int (struct socket *sock, struct msghdr *msg, size_t size, int flags)
            #[unsafe(no_mangle)]
            #[unsafe(link_section = $section)]
            fn $program(&[socket, _, _, flags, result]: &[u64; 5]) -> i32 {
                count_call(socket, Direction::Received(flags as u32), result)
            }
        )+};
    }

    exit_of_send! {
        inet_sendmsg = "fexit/inet_sendmsg";
        inet6_sendmsg = "fexit/inet6_sendmsg";
        unix_stream_sendmsg = "fexit/unix_stream_sendmsg";
        unix_dgram_sendmsg = "fexit/unix_dgram_sendmsg";
        netlink_sendmsg = "fexit/netlink_sendmsg";
        packet_sendmsg = "fexit/packet_sendmsg";
    }

    exit_of_receive! {
        inet_recvmsg = "fexit/inet_recvmsg";
        inet6_recvmsg = "fexit/inet6_recvmsg";
        unix_stream_recvmsg = "fexit/unix_stream_recvmsg";
        unix_dgram_recvmsg = "fexit/unix_dgram_recvmsg";
        netlink_recvmsg = "fexit/netlink_recvmsg";
        packet_recvmsg = "fexit/packet_recvmsg";
    }

    /// Declares the `fexit` programs of functions that splice(2) and sendfile(2) call.
    macro_rules! exit_of_pages {
        ($($program:ident = $section:literal, $direction:expr;)+) => {$(
            // match-proto: a socket, four more arguments, and the number of bytes
            #[unsafe(no_mangle)]
            #[unsafe(link_section = $section)]
            fn $program(&[socket, _, _, _, _, result]: &[u64; 6]) -> i32 {
                count_call(socket, $direction, result)
            }
        )+};
    }

    exit_of_pages! {
        tcp_splice_read = "fexit/tcp_splice_read", Direction::Received(0);
        unix_stream_splice_read = "fexit/unix_stream_splice_read", Direction::Received(0);
        inet_sendpage = "fexit/inet_sendpage", Direction::Sent;
        unix_stream_sendpage = "fexit/unix_stream_sendpage", Direction::Sent;
    }

    /// The registers of a probed function.
    type Registers = *const u8;

    /// A register by its offset on x86, else by its number.
    #[inline(always)]
    fn register(registers: Registers, x86: u32, number: u32) -> u64 {
        let other = constant!(REGISTERS.all);
        probe(registers, if x86 == ABSENT { other + 8 * number } else { x86 })
    }

    #[inline(always)]
    fn enter(registers: Registers, flags: u64) -> u32 {
        let call = Call { socket: register(registers, constant!(REGISTERS.first), 0), flags };
        if CALLS.insert(&bpf_get_current_pid_tgid(), &call, 0).is_err() {
            loss::table_full();
        }
        0
    }

    #[inline(always)]
    fn result(registers: Registers, direction: impl FnOnce(u32) -> Direction) -> u32 {
        let thread = bpf_get_current_pid_tgid();
        // SAFETY: an entry is plain integers, and this thread alone writes it.
        let Some(call) = CALLS.get_ptr(&thread).map(|call| unsafe { *call }) else { return 0 };
        let _ = CALLS.remove(&thread);
        let value = register(registers, constant!(REGISTERS.result), 0);
        let _ = count_call(call.socket, direction(call.flags as u32), value);
        0
    }

    // match-proto: int (struct socket *sock, struct msghdr *msg, size_t size)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/send")]
    fn send_entry(registers: Registers) -> u32 {
        enter(registers, 0)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/send")]
    fn send_return(registers: Registers) -> u32 {
        result(registers, |_| Direction::Sent)
    }

    // match-proto: int (struct socket *sock, struct msghdr *msg, size_t size, int flags)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/receive")]
    fn receive_entry(registers: Registers) -> u32 {
        enter(registers, register(registers, constant!(REGISTERS.fourth), 3))
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/receive")]
    fn receive_return(registers: Registers) -> u32 {
        result(registers, Direction::Received)
    }

    monitor_ebpf::object!();
}
