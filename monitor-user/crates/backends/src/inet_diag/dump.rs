//! The dump of TCP sockets: netlink, `SOCK_DIAG_BY_FAMILY` with `INET_DIAG_INFO`.
//!
//! Out: every connection and listener of this network namespace, with its counters, or why there
//! is no list. Connections in `SYN_RECV` and `TIME_WAIT` are left out.

use super::info::TcpInfo;
use monitor_backend::Error;
use monitor_ebpf::abi::tcp::Counters;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_packet_sock_diag::{SockDiagMessage, inet::nlas::Nla};
use netlink_sys::{Socket as Netlink, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::net::IpAddr;

/// The kernel's messages are as long as what is offered, up to 32 KiB.
const MESSAGES: usize = 32 << 10;

/// A connection or a listener.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    /// Identifies the socket; never reused.
    pub cookie: u64,
    /// In `/proc/<pid>/fd`; 0 once it was closed.
    pub inode: u32,
    /// 4 or 6, by the remote address.
    pub family: u32,
    /// Its traffic.
    pub counters: Counters,
    /// Smoothed round-trip time in eighths of a microsecond, 0 for none.
    pub srtt_us8: u32,
}

/// The connection to the kernel.
pub struct Dump {
    netlink: Netlink,
    messages: Vec<u8>,
}

impl std::fmt::Debug for Dump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dump")
    }
}

impl Dump {
    /// Connects.
    pub fn open() -> Result<Self, Error> {
        let mut netlink = Netlink::new(NETLINK_SOCK_DIAG).map_err(failed("socket"))?;
        let _address = netlink.bind_auto().map_err(failed("bind"))?;
        netlink.connect(&SocketAddr::new(0, 0)).map_err(failed("connect"))?;
        Ok(Self { netlink, messages: Vec::with_capacity(MESSAGES) })
    }

    /// All of them, IPv4 and IPv6.
    pub fn sockets(&mut self) -> Result<Vec<Socket>, Error> {
        let mut sockets = Vec::new();
        for (family, any) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            let request = request(family, any);
            let _bytes = self.netlink.send(&request, 0).map_err(failed("send"))?;
            while self.more(&mut sockets)? {}
        }
        Ok(sockets)
    }

    /// Receives a batch of messages; whether more will come.
    fn more(&mut self, sockets: &mut Vec<Socket>) -> Result<bool, Error> {
        self.messages.clear();
        let _bytes = self.netlink.recv(&mut self.messages, 0).map_err(failed("recv"))?;
        let mut rest = &self.messages[..];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(strange)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    sockets.push(connection(&response));
                }
                NetlinkPayload::Done(_) => return Ok(false),
                NetlinkPayload::Error(error) => return Err(refused(error.to_io())),
                _ => {}
            }
            // Messages begin at multiples of four bytes.
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(true)
    }
}

fn request(family: u8, any: SocketId) -> Vec<u8> {
    let quiet = StateFlags::TIME_WAIT | StateFlags::SYN_RECV;
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all() - quiet,
        socket_id: any,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn connection(response: &InetResponse) -> Socket {
    let id = &response.header.socket_id;
    let info = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(bytes) => Some(TcpInfo::from_attribute(bytes)),
        _ => None,
    });
    let is_v4 = match id.destination_address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    Socket {
        cookie: u64::from_ne_bytes(id.cookie),
        inode: response.header.inode,
        family: if is_v4 { 4 } else { 6 },
        counters: info.map(|it| it.counters()).unwrap_or_default(),
        srtt_us8: info.map_or(0, |it| it.srtt_us8()),
    }
}

/// The error of a dump; the kernel returns `ENOENT` if it has no module for it.
fn refused(error: std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return failed("dump")(error);
    }
    Error::unsupported(
        "the list of TCP sockets",
        "this kernel has not loaded tcp_diag",
        "modprobe tcp_diag (CONFIG_INET_TCP_DIAG)",
    )
}

fn failed(call: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::kernel(call, "the list of TCP sockets (inet_diag)", source)
}

fn strange(error: impl std::fmt::Display) -> Error {
    Error::malformed(format!("the list of TCP sockets ({error})"), "inet_diag")
}
