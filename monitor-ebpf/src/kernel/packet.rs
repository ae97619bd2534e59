//! An IP packet as a cgroup program sees it: from its network header on.
//!
//! In: `__sk_buff`. Out: its socket, protocol and payload size. A packet that will be segmented
//! (GSO) or was merged (GRO) has one header.

use super::sock::Traffic;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes;
use core::mem::MaybeUninit;

const ETH_P_IP: u16 = 0x0800;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const UDP_HEADER: u32 = 8;
const IPV6_HEADER: u32 = 40;

/// A packet.
#[derive(Clone, Copy)]
pub struct Packet(*mut __sk_buff);

/// Contents of a packet.
pub struct Content {
    /// UDP over IPv4 or IPv6, or anything else.
    pub traffic: Traffic,
    /// Whether it is a segment of TCP.
    pub is_tcp: bool,
    /// Bytes after the headers; extension headers of IPv6 count as payload.
    pub payload: u64,
}

impl Packet {
    /// Wraps a packet passed to the program by the kernel.
    #[inline(always)]
    pub fn from_kernel(buffer: *mut __sk_buff) -> Self {
        Self(buffer)
    }

    /// Its socket, which may be null.
    #[inline(always)]
    pub fn socket(self) -> *mut u8 {
        // SAFETY: the kernel's own buffer; the verifier turns the load into one of the pointer.
        let socket = unsafe { &raw const (*self.0).__bindgen_anon_2.sk };
        // SAFETY: as above; volatile, so that it is one load of the whole pointer.
        unsafe { socket.read_volatile() }.cast()
    }

    /// Its contents.
    #[inline(always)]
    pub fn content(self) -> Content {
        let is_v4 = self.protocol() == ETH_P_IP;
        let (protocol, header) = if is_v4 {
            (self.byte(9), u32::from(self.byte(0) & 0xf) * 4)
        } else {
            (self.byte(6), IPV6_HEADER)
        };
        let inner = match protocol {
            IPPROTO_TCP => u32::from(self.byte(header + 12) >> 4) * 4,
            IPPROTO_UDP => UDP_HEADER,
            _ => 0,
        };
        let traffic = match (protocol, is_v4) {
            (IPPROTO_UDP, true) => Traffic::Udp4,
            (IPPROTO_UDP, false) => Traffic::Udp6,
            _ => Traffic::Other,
        };
        let payload = u64::from(self.len().saturating_sub(header + inner));
        Content { traffic, is_tcp: protocol == IPPROTO_TCP, payload }
    }

    /// A byte of the packet; zero beyond its end.
    #[inline(always)]
    fn byte(self, at: u32) -> u8 {
        let mut byte = MaybeUninit::<u8>::zeroed();
        // SAFETY: the helper writes one byte at most.
        unsafe { bpf_skb_load_bytes(self.0.cast(), at, byte.as_mut_ptr().cast(), 1) };
        // SAFETY: any byte is a value.
        unsafe { byte.assume_init() }
    }

    #[inline(always)]
    fn len(self) -> u32 {
        // SAFETY: the kernel's own buffer.
        let len = unsafe { &raw const (*self.0).len };
        // SAFETY: as above; volatile, so that it is one load.
        unsafe { len.read_volatile() }
    }

    /// The protocol of its network header.
    #[inline(always)]
    fn protocol(self) -> u16 {
        // SAFETY: the kernel's own buffer.
        let protocol = unsafe { &raw const (*self.0).protocol };
        // SAFETY: as above; volatile, so that it is one load.
        u16::from_be(unsafe { protocol.read_volatile() } as u16)
    }
}
