//! Payload of IP sockets by process, from the packets that pass the root cgroup.
//!
//! For kernels without a hook at each call. Packets are classified by their headers. Socket storage
//! holds the owner of a socket: its creator, for an accepted connection the creator of the
//! listener, or the last sender of a datagram. A packet of a socket without an owner is counted for
//! no process. Retransmissions count again, and so do packets dropped by a full socket.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::{__sk_buff, bpf_sock};
    use aya_ebpf::macros::{btf_map, map};
    use aya_ebpf::maps::Array;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::kernel::packet::{Content, Packet};
    use monitor_ebpf::kernel::payload::{Direction, Sockets, add};
    use monitor_ebpf::kernel::storage::SocketStorage;
    use monitor_ebpf::kernel::{atomic, task::Task};

    /// Return value of a program that lets a packet pass.
    const PASS: i32 = 1;

    /// Payload by process.
    #[map]
    static SOCKETS: Sockets = Sockets::with_max_entries(4096, 0);

    /// Owners of sockets; a connection inherits it from its listener.
    #[btf_map]
    static CREATORS: SocketStorage<Owner> = SocketStorage::new();

    /// Packets of sockets without a known owner.
    #[map]
    static UNOWNED: Array<u64> = Array::with_max_entries(1, 0);

    /// A process creates an IP socket.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup/sock_create")]
    fn create(socket: *mut bpf_sock) -> i32 {
        if let Some(owner) = Task::current_user_process() {
            set_owner(socket.cast(), &owner);
        }
        PASS
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup_skb/egress")]
    fn egress(buffer: *mut __sk_buff) -> i32 {
        let packet = Packet::from_kernel(buffer);
        let content = packet.content();
        // Only TCP also sends outside its process: when an acknowledgement opens the window.
        let sender = if content.is_tcp { None } else { Task::current_user_process() };
        count(packet, &content, sender, Direction::Sent)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup_skb/ingress")]
    fn ingress(buffer: *mut __sk_buff) -> i32 {
        let packet = Packet::from_kernel(buffer);
        count(packet, &packet.content(), None, Direction::Received(0))
    }

    #[inline(always)]
    fn count(
        packet: Packet,
        content: &Content,
        sender: Option<Owner>,
        direction: Direction,
    ) -> i32 {
        let socket = packet.socket();
        if socket.is_null() {
            return PASS; // Sent by the kernel itself, such as a reset.
        }
        if let Some(sender) = sender {
            set_owner(socket, &sender);
        }
        match CREATORS.existing(socket) {
            Some(owner) => {
                let (traffic, bytes) = (content.traffic, content.payload);
                // SAFETY: the storage lives as long as the socket; a torn owner matches no process.
                add(&SOCKETS, unsafe { &*owner }, traffic, direction, bytes)
            }
            None => count_unowned(),
        }
        PASS
    }

    /// Sets the owner of a socket.
    #[inline(always)]
    fn set_owner(socket: *mut u8, owner: &Owner) {
        if let Some(stored) = CREATORS.get_or_create(socket) {
            // SAFETY: the storage lives as long as the socket.
            unsafe { *stored = *owner };
        }
    }

    #[inline(always)]
    fn count_unowned() {
        if let Some(count) = UNOWNED.get_ptr_mut(0) {
            // SAFETY: the element lives as long as the map.
            atomic::add(unsafe { &mut *count }, 1);
        }
    }

    monitor_ebpf::object!();
}
