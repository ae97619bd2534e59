//! Packets, answers and replies as plain data, and back.
//!
//! Requests and results travel as text of the language, so that a link needs to know no type of it.
//! What does not make sense was written by another version of us: it is logged and left out, and
//! whoever waits for it is answered by his deadline.

use crate::message::{Written, WrittenAnswer, WrittenReply};
use crate::order::Parcel;
use monitor_event::outcome::Done;
use monitor_event::outcome::Reason;
use monitor_event::right::{Reach, SessionId, Tool};
use monitor_model::whose::Eyes;
use monitor_omis::{Answer, Dialect, Name, Node, Reply, Request, RequestId, Stage, parse};
use monitor_sampling::veil::Veil;
use monitor_services::requests::{Answered, Packet, PartId, Spoken, What};

/// What stands for the tool's end in the place of a request.
const LEAVE: &str = "";

/// A packet as data.
pub fn pack(packet: &Packet) -> Parcel {
    let request = match &packet.what {
        What::Do(basic) => {
            Request { event: None, stages: vec![Stage(vec![basic.clone()])] }.to_string()
        }
        What::Store(request) => request.to_string(),
        What::Leave => LEAVE.to_owned(),
    };
    let tool = packet.tool;
    let eyes = match tool.sees {
        Veil::None => None,
        Veil::Own(eyes) => Some((eyes.uid, eyes.gid, false)),
        Veil::Only(eyes) => Some((eyes.uid, eyes.gid, true)),
    };
    let written = Written {
        from: packet.from.0,
        course: packet.part.course,
        member: packet.part.member,
        entry: tool.session.entry,
        conn: tool.session.conn,
        ids: [tool.uid, tool.gid, tool.pid],
        eyes,
        reach: tool.acts as u8,
        is_strict: packet.dialect == Dialect::Strict,
        depth: packet.depth,
        request,
    };
    Parcel { nodes: packet.nodes.iter().map(|node| node.0).collect(), what: Box::new(written) }
}

/// A packet of data.
pub fn unpack(parcel: &Parcel) -> Option<Packet> {
    let written = &parcel.what;
    let what = match written.request.as_str() {
        LEAVE => What::Leave,
        text => {
            let read = parse::request(text.as_bytes(), Dialect::Extended);
            let mut request = understood(read.map_err(|_| "a request"))?;
            match request.event {
                Some(_) => What::Store(request),
                None => What::Do(request.stages.pop()?.0.pop()?),
            }
        }
    };
    let session = SessionId { entry: written.entry, conn: written.conn };
    let sees = match written.eyes {
        None => Veil::None,
        Some((uid, gid, false)) => Veil::Own(Eyes { uid, gid }),
        Some((uid, gid, true)) => Veil::Only(Eyes { uid, gid }),
    };
    let acts = match written.reach {
        2 => Reach::All,
        1 => Reach::Own,
        _ => Reach::Nobody,
    };
    let [uid, gid, pid] = written.ids;
    Some(Packet {
        from: Node(written.from),
        part: PartId { course: written.course, member: written.member },
        tool: Tool { session, uid, gid, pid, sees, acts },
        dialect: if written.is_strict { Dialect::Strict } else { Dialect::Extended },
        nodes: parcel.nodes.iter().copied().map(Node).collect(),
        depth: written.depth,
        what,
    })
}

/// An answer as data.
pub fn answer(answered: &Answered) -> WrittenAnswer {
    let done = answered.done.clone();
    let (id, nodes) = (RequestId::default(), vec![answered.node]);
    let service = Name::new("answer").expect("it is an identifier");
    let answer = Answer { id, nodes, service, status: done.status, results: done.results };
    WrittenAnswer {
        course: answered.part.course,
        member: answered.part.member,
        answer: answer.to_string(),
        reason: done.reason.map(|why| (why.errno, why.text)),
    }
}

/// An answer of data.
pub fn answered(written: &WrittenAnswer) -> Option<Answered> {
    let read = parse::reply(written.answer.as_bytes());
    let answer = understood(read.map_err(|_| "an answer"))?.0.pop()?;
    let reason = written.reason.clone().map(|(errno, text)| Reason { errno, text });
    Some(Answered {
        node: *answer.nodes.first()?,
        part: PartId { course: written.course, member: written.member },
        done: Done { status: answer.status, results: answer.results, reason },
    })
}

/// A reply as data.
pub fn words(spoken: &Spoken) -> WrittenReply {
    let SessionId { entry, conn } = spoken.session;
    WrittenReply { entry, conn, reply: spoken.reply.to_string(), is_told: spoken.is_told }
}

/// A reply of data.
pub fn spoken(written: &WrittenReply) -> Option<Spoken> {
    let session = SessionId { entry: written.entry, conn: written.conn };
    let read = parse::reply(written.reply.as_bytes());
    let reply: Reply = understood(read.map_err(|_| "a reply"))?;
    Some(Spoken { session, reply, is_told: written.is_told })
}

fn understood<T>(read: Result<T, &'static str>) -> Option<T> {
    read.map_err(|what| tracing::warn!("another node sent {what} that makes no sense")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Status, Value};

    #[track_caller]
    fn check(what: What) {
        let session = SessionId { entry: 1, conn: 7 };
        let sees = Veil::Only(Eyes { uid: 5, gid: 6 });
        let tool = Tool { session, uid: 5, gid: 6, pid: 9, sees, acts: Reach::Own };
        let (part, dialect) = (PartId { course: 3, member: 2 }, Dialect::Strict);
        let nodes = vec![Node(0), Node(2)];
        let packet = Packet { from: Node(1), part, tool, dialect, nodes, depth: 4, what };
        assert_eq!(unpack(&pack(&packet)), Some(packet));
    }

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let request = |line: &str| parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let basic = request("7 [0,2] kill([p_1_7,5],15)").stages.remove(0).0.remove(0);
        check(What::Do(basic));
        check(What::Store(request("7 [] new_node(): 8 [$1] print($1,\"a\\n\"); 9 [$0] print([])")));
        check(What::Leave);
    }

    #[test]
    fn an_answer_keeps_its_reason() {
        let reason = Some(Reason { errno: 1, text: "not \"yours\"".into() });
        let done = Done { status: Status::PERMISSION, results: vec![Value::from("x")], reason };
        let part = PartId { course: 3, member: 2 };
        let it = Answered { node: Node(2), part, done };
        assert_eq!(answered(&answer(&it)), Some(it));
    }
}
