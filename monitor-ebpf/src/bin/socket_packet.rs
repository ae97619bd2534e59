//! Payload of IP sockets by process, from the packets that pass the root cgroup.
//!
//! For kernels without a hook at each call. A packet is told from its headers, and its socket
//! carries a note whose it is: who made it, for a connection that was accepted who made the
//! listener, or who sent its first datagram. A packet that comes for a socket without a note is
//! counted for nobody. What is sent again counts again, and so does what a full socket drops.
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
    use monitor_ebpf::kernel::payload::{Sockets, Way, add};
    use monitor_ebpf::kernel::storage::SocketStorage;
    use monitor_ebpf::kernel::{atomic, task::Task};

    /// What a program says that lets everything pass.
    const PASS: i32 = 1;

    /// Payload by process.
    #[map]
    static SOCKETS: Sockets = Sockets::with_max_entries(4096, 0);

    /// Whose a socket is; a connection inherits it from its listener.
    #[btf_map]
    static MAKERS: SocketStorage<Owner> = SocketStorage::new();

    /// Packets whose socket nobody is known for.
    #[map]
    static UNOWNED: Array<u64> = Array::with_max_entries(1, 0);

    /// A process makes an IP socket.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup/sock_create")]
    fn create(socket: *mut bpf_sock) -> i32 {
        if let Some(owner) = Task::current_user_process() {
            note(socket.cast(), &owner);
        }
        PASS
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup_skb/egress")]
    fn egress(buffer: *mut __sk_buff) -> i32 {
        let packet = Packet::from_kernel(buffer);
        let content = packet.content();
        // Only TCP sends where its process does not run: when it was told of more room.
        let sender = if content.is_tcp { None } else { Task::current_user_process() };
        count(packet, &content, sender, Way::Sent)
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "cgroup_skb/ingress")]
    fn ingress(buffer: *mut __sk_buff) -> i32 {
        let packet = Packet::from_kernel(buffer);
        count(packet, &packet.content(), None, Way::Received(0))
    }

    #[inline(always)]
    fn count(packet: Packet, content: &Content, sender: Option<Owner>, way: Way) -> i32 {
        let socket = packet.socket();
        if socket.is_null() {
            return PASS; // The kernel's own answer, such as a reset.
        }
        if let Some(sender) = sender {
            note(socket, &sender);
        }
        match MAKERS.existing(socket) {
            Some(owner) => {
                let (traffic, bytes) = (content.traffic, content.payload);
                // SAFETY: the storage lives as long as the socket; a torn owner counts for nobody.
                add(&SOCKETS, unsafe { &*owner }, traffic, way, bytes)
            }
            None => unowned(),
        }
        PASS
    }

    /// Notes whose a socket is.
    #[inline(always)]
    fn note(socket: *mut u8, owner: &Owner) {
        if let Some(place) = MAKERS.made(socket) {
            // SAFETY: the storage lives as long as the socket.
            unsafe { *place = *owner };
        }
    }

    #[inline(always)]
    fn unowned() {
        if let Some(count) = UNOWNED.get_ptr_mut(0) {
            // SAFETY: the element lives as long as the map.
            atomic::add(unsafe { &mut *count }, 1);
        }
    }

    monitor_ebpf::object!();
}
