//! Payload of every socket by process, before 6.3: the kernel's own functions are probed.
//!
//! `inet_sendmsg` and its three siblings see every call on a socket of IP. `sock_sendmsg` and
//! `sock_recvmsg` see the other families; there `sendmmsg(2)` passes them by after its first
//! message. Each function has two programs, `fexit` or entry and return, and the loader attaches
//! one kind.
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
    use monitor_ebpf::kernel::payload::{Way, count};
    use monitor_ebpf::kernel::sock::{Traffic, traffic_of};
    use monitor_ebpf::kernel::{constant, loss, probe, task::Task};

    /// Set by the loader.
    #[unsafe(no_mangle)]
    static REGISTERS: RegisterOffsets = RegisterOffsets::ABSENT;

    /// A call that was entered: its socket and its flags.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Call {
        socket: u64,
        flags: u64,
    }

    /// Calls by thread: none makes two at once. The loader sets the size.
    #[map]
    static CALLS: HashMap<u64, Call> = HashMap::with_max_entries(4096, 0);

    /// Which sockets a function is responsible for.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Of {
        Ip,
        Others,
    }

    #[inline(always)]
    fn leave(socket: u64, way: Way, result: u64, of: Of) -> i32 {
        let traffic = traffic_of(socket as *const u8);
        if (traffic == Traffic::Other) == (of == Of::Others) {
            count(&Task::current_owner_untyped(), traffic, way, result as i32);
        }
        0
    }

    /// Declares the `fexit` program of a function: its arguments, then its result.
    macro_rules! fexit {
        ($($program:ident = $section:literal, $result:literal, $of:ident, |$args:ident| $way:expr;)+) => {
            $(
                #[unsafe(no_mangle)]
                #[unsafe(link_section = $section)]
                fn $program(args: *const [u64; $result + 1]) -> i32 {
                    // SAFETY: the kernel passes the arguments of the function and its result.
                    let $args = unsafe { &*args };
                    leave($args[0], $way, $args[$result], Of::$of)
                }
            )+
        };
    }

    fexit! {
        inet_send = "fexit/inet_sendmsg", 3, Ip, |args| Way::Sent;
        inet6_send = "fexit/inet6_sendmsg", 3, Ip, |args| Way::Sent;
        sock_send = "fexit/sock_sendmsg", 2, Others, |args| Way::Sent;
        inet_receive = "fexit/inet_recvmsg", 4, Ip, |args| Way::Received(args[3] as u32);
        inet6_receive = "fexit/inet6_recvmsg", 4, Ip, |args| Way::Received(args[3] as u32);
        sock_receive = "fexit/sock_recvmsg", 3, Others, |args| Way::Received(args[2] as u32);
    }

    /// The registers of a probed function.
    type Registers = *const u8;

    /// A register by its place on x86, else by its number.
    #[inline(always)]
    fn register(registers: Registers, x86: u32, number: u32) -> u64 {
        let other = constant!(REGISTERS.all);
        probe(registers, if x86 == ABSENT { other + 8 * number } else { x86 })
    }

    #[inline(always)]
    fn enter(registers: Registers, flags: u64, of: Of) -> u32 {
        let socket = register(registers, constant!(REGISTERS.first), 0);
        let is_other = traffic_of(socket as *const u8) == Traffic::Other;
        let thread = bpf_get_current_pid_tgid();
        if is_other == (of == Of::Others)
            && CALLS.insert(&thread, &Call { socket, flags }, 0).is_err()
        {
            loss::table_full();
        }
        0
    }

    #[inline(always)]
    fn result(registers: Registers, way: impl FnOnce(u32) -> Way, of: Of) -> u32 {
        let thread = bpf_get_current_pid_tgid();
        // SAFETY: an entry is plain integers, and this thread alone writes it.
        let Some(call) = CALLS.get_ptr(&thread).map(|call| unsafe { *call }) else { return 0 };
        let _ = CALLS.remove(&thread);
        let value = register(registers, constant!(REGISTERS.result), 0);
        let _ = leave(call.socket, way(call.flags as u32), value, of);
        0
    }

    // match-proto: int inet_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
    // match-proto: int inet6_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/send")]
    fn ip_send_entry(registers: Registers) -> u32 {
        enter(registers, 0, Of::Ip)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/send")]
    fn ip_send_return(registers: Registers) -> u32 {
        result(registers, |_| Way::Sent, Of::Ip)
    }

    // match-proto: int sock_sendmsg(struct socket *sock, struct msghdr *msg)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/sock_send")]
    fn other_send_entry(registers: Registers) -> u32 {
        enter(registers, 0, Of::Others)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/sock_send")]
    fn other_send_return(registers: Registers) -> u32 {
        result(registers, |_| Way::Sent, Of::Others)
    }

    // match-proto: int inet_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
    // match-proto: int inet6_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/receive")]
    fn ip_receive_entry(registers: Registers) -> u32 {
        enter(registers, register(registers, constant!(REGISTERS.fourth), 3), Of::Ip)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/receive")]
    fn ip_receive_return(registers: Registers) -> u32 {
        result(registers, Way::Received, Of::Ip)
    }

    // match-proto: int sock_recvmsg(struct socket *sock, struct msghdr *msg, int flags)
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kprobe/sock_receive")]
    fn other_receive_entry(registers: Registers) -> u32 {
        enter(registers, register(registers, constant!(REGISTERS.third), 2), Of::Others)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "kretprobe/sock_receive")]
    fn other_receive_return(registers: Registers) -> u32 {
        result(registers, Way::Received, Of::Others)
    }

    monitor_ebpf::object!();
}
