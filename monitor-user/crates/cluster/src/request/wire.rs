//! Packets, their replies and lines for tools as plain data, and back.
//!
//! Requests and results are sent as OMIS text, so that a bus needs no type of the language.
//! Malformed data, as from another version of the monitor, is logged and dropped; the deadline of
//! the waiting request covers it.

use super::message::{WireClientReply, WirePacket, WirePacketReply};
use monitor_event::outcome::{CallResult, Reason};
use monitor_event::right::{SessionId, Tool};
use monitor_omis::{Answer, Dialect, Name, Node, Reply, Request, RequestId, Stage, parse};
use monitor_services::requests::{ClientReply, Packet, PacketBody, PacketReply, PartId};

/// The request text of a disconnected tool.
const LEAVE: &str = "";

/// Serializes a packet.
pub fn pack(packet: &Packet) -> WirePacket {
    let request = match &packet.body {
        PacketBody::Execute(basic) => {
            Request { event: None, stages: vec![Stage(vec![basic.clone()])] }.to_string()
        }
        PacketBody::Store(request) => request.to_string(),
        PacketBody::RemoveSession => LEAVE.to_owned(),
    };
    WirePacket {
        from: packet.from.0,
        execution: packet.part.execution,
        member: packet.part.member,
        entry: packet.tool.session.entry,
        conn: packet.tool.session.conn,
        pid: packet.tool.pid,
        is_strict: packet.dialect == Dialect::Strict,
        depth: packet.depth,
        request,
    }
}

/// Deserializes a packet for a node, where its tool has these rights.
pub fn unpack(written: &WirePacket, node: Node, tool: Tool) -> Option<Packet> {
    let body = match written.request.as_str() {
        LEAVE => PacketBody::RemoveSession,
        text => {
            let read = parse::request(text.as_bytes(), Dialect::Extended);
            let mut request = parsed(read.map_err(|_| "a request"))?;
            match request.event {
                Some(_) => PacketBody::Store(request),
                None => PacketBody::Execute(request.stages.pop()?.0.pop()?),
            }
        }
    };
    let session = SessionId { entry: written.entry, conn: written.conn };
    Some(Packet {
        from: Node(written.from),
        part: PartId { execution: written.execution, member: written.member },
        tool: Tool { session, pid: written.pid, ..tool },
        dialect: if written.is_strict { Dialect::Strict } else { Dialect::Extended },
        nodes: vec![node],
        depth: written.depth,
        is_event: false,
        body,
    })
}

/// Serializes a reply to a packet.
pub fn packet_reply_to_wire(answered: &PacketReply) -> WirePacketReply {
    let done = answered.result.clone();
    let (id, nodes) = (RequestId::default(), vec![answered.node]);
    let service = Name::new("answer").expect("answer is a valid name");
    let answer = Answer { id, nodes, service, status: done.status, results: done.results };
    WirePacketReply {
        execution: answered.part.execution,
        member: answered.part.member,
        answer: answer.to_string(),
        reason: done.reason.map(|why| (why.errno, why.text)),
    }
}

/// Deserializes a reply to a packet.
pub fn packet_reply_from_wire(written: &WirePacketReply) -> Option<PacketReply> {
    let read = parse::reply(written.answer.as_bytes());
    let answer = parsed(read.map_err(|_| "an answer"))?.0.pop()?;
    let reason = written.reason.clone().map(|(errno, text)| Reason { errno, text });
    Some(PacketReply {
        node: *answer.nodes.first()?,
        part: PartId { execution: written.execution, member: written.member },
        result: CallResult { status: answer.status, results: answer.results, reason },
    })
}

/// Serializes a line for a tool.
pub fn client_reply_to_wire(reply: &ClientReply) -> WireClientReply {
    let SessionId { entry, conn } = reply.session;
    WireClientReply { entry, conn, reply: reply.reply.to_string(), is_notice: reply.is_notice }
}

/// Deserializes a line for a tool.
pub fn client_reply_from_wire(written: &WireClientReply) -> Option<ClientReply> {
    let session = SessionId { entry: written.entry, conn: written.conn };
    let read = parse::reply(written.reply.as_bytes());
    let reply: Reply = parsed(read.map_err(|_| "a reply"))?;
    Some(ClientReply { session, reply, is_notice: written.is_notice })
}

fn parsed<T>(read: Result<T, &'static str>) -> Option<T> {
    read.map_err(|what| tracing::warn!("another node sent {what} that cannot be parsed")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_event::right::ControlGrant;
    use monitor_model::Credentials;
    use monitor_omis::{Status, Value};
    use monitor_sampling::visibility::Visibility;

    #[track_caller]
    fn check(body: PacketBody) {
        let session = SessionId { entry: 1, conn: 7 };
        let visibility = Visibility::OwnOnly(Credentials { uid: 5, gid: 6 });
        let control = ControlGrant::Own;
        let tool = Tool { session, uid: 5, gid: 6, pid: 9, visibility, control };
        let (part, dialect) = (PartId { execution: 3, member: 2 }, Dialect::Strict);
        let (from, nodes) = (Node(1), vec![Node(2)]);
        let packet = Packet { from, part, tool, dialect, nodes, depth: 4, is_event: false, body };
        let payload = pack(&packet).to_payload();
        let written =
            WirePacket::from_payload(&payload).expect("a packet").expect("of this version");
        let rights = Tool { session: SessionId::default(), pid: 0, ..tool };
        assert_eq!(unpack(&written, Node(2), rights), Some(packet));
    }

    #[test]
    fn a_packet_survives_serialization() {
        let request = |line: &str| parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let basic = request("7 [0,2] kill([p_1_7,5],15)").stages.remove(0).0.remove(0);
        check(PacketBody::Execute(basic));
        check(PacketBody::Store(request(
            "7 [] new_node(): 8 [$1] print($1,\"a\\n\"); 9 [$0] print([])",
        )));
        check(PacketBody::RemoveSession);
    }

    #[test]
    fn a_reply_keeps_its_reason() {
        let reason = Some(Reason { errno: 1, text: "not \"yours\"".into() });
        let done =
            CallResult { status: Status::PERMISSION, results: vec![Value::from("x")], reason };
        let part = PartId { execution: 3, member: 2 };
        let it = PacketReply { node: Node(2), part, result: done };
        assert_eq!(packet_reply_from_wire(&packet_reply_to_wire(&it)), Some(it));
    }
}
