//! Services for the messages of real libraries: inserted, removed, tagged, reported on arrival.

use super::mpi::{OPEN_MPI, Ranks};
use super::pvm::{Pvm, Task};
use crate::root::privilege::granted;
use crate::served::Served;
use crate::socket_session::SocketSession;

/// Opens a session that is attached to these processes.
fn tool(served: &Served, pids: &[u32]) -> SocketSession {
    let mut session = served.connect();
    let list: Vec<String> = pids.iter().map(u32::to_string).collect();
    assert_eq!(session.request(&format!("1 [0] attach([{}])", list.join(","))), "1 [0] attach(0)");
    session
}

/// Sends a request and returns its reply, without the common prefix.
#[track_caller]
fn reply_to(session: &mut SocketSession, request: &str) -> String {
    let line = session.request(&format!("2 [0] {request}"));
    line.strip_prefix("2 [0] ").unwrap_or(&line).to_owned()
}

/// Stores and enables a request that prints the parameters of an event.
#[track_caller]
fn watch(session: &mut SocketSession, event: &str, values: &str) {
    let stored = session.request(&format!("10 [0] {event}: 11 [0] print([{values}])"));
    assert!(stored.ends_with("(0)"), "{stored}");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
}

/// Starts two tasks; the second has three messages in its queue, with tags from 100 on.
fn tasks(pvm: &Pvm) -> (Task, Task) {
    let (mut sender, mut receiver) = (pvm.task(), pvm.task());
    let _sent = sender.run(&format!("many 3 {} 100", receiver.tid));
    crate::deadline::until(|| (receiver.run("probe 102") == "1").then_some(()));
    (sender, receiver)
}

#[test]
fn root_messages_are_inserted_into_the_queue_of_a_pvm_task_and_removed() {
    const TEST: &str = "root_messages_are_inserted_into_the_queue_of_a_pvm_task_and_removed";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (sender, mut receiver) = tasks(&pvm);
    let (served, pid) = (Served::start("ebpf"), receiver.pid().0);
    let mut session = tool(&served, &[pid]);
    for (bytes, position) in [("#5:68656c6c6f", "1"), ("[97,98]", "-1"), ("[]", "0")] {
        let reply = reply_to(&mut session, &format!("insert_message({pid},{bytes},{position})"));
        assert_eq!(reply, "insert_message(0)");
    }
    let from = sender.tid;
    let want = format!("0,0,0,{from},100,0,0,0,5,{from},101,10,{from},102,20,0,0,2");
    let reply = reply_to(&mut session, &format!("queue_info({pid},7)"));
    assert_eq!(reply, format!("queue_info(0,6,[{want}])"));
    // The empty message, and 101, which is then the third.
    for position in [0, 2] {
        let reply = reply_to(&mut session, &format!("remove_message({pid},{position})"));
        assert_eq!(reply, "remove_message(0)");
    }
    let beyond = reply_to(&mut session, &format!("remove_message({pid},4)"));
    assert!(beyond.starts_with("remove_message(300,"), "{beyond}");
    assert_eq!(receiver.run("text 0"), "0 0 hello");
    assert_eq!(receiver.run("text 0"), "0 0 ab");
    assert_eq!(receiver.run("probe 101"), "0");
    let rest = receiver.run(&format!("receive {from} 102"));
    assert!(rest.ends_with(&format!(" 20 102 {from}")), "{rest}");
}

#[test]
fn root_a_message_is_not_inserted_while_the_task_is_inside_pvm() {
    const TEST: &str = "root_a_message_is_not_inserted_while_the_task_is_inside_pvm";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (mut sender, mut receiver) = tasks(&pvm);
    let (served, pid) = (Served::start("ebpf"), receiver.pid().0);
    let mut session = tool(&served, &[pid]);
    receiver.begin("text 777");
    let refused = crate::deadline::until(|| {
        let reply = reply_to(&mut session, &format!("insert_message({pid},[1],-1)"));
        (reply != "insert_message(0)").then_some(reply)
    });
    assert!(refused.contains("(303,") && refused.contains("in the library"), "{refused}");
    let _sent = sender.run(&format!("send {} 777 3", receiver.tid));
    assert_eq!(receiver.reply(), format!("777 {} xxx", sender.tid));
}

#[test]
fn root_only_the_tagged_pvm_messages_are_reported_when_received() {
    const TEST: &str = "root_only_the_tagged_pvm_messages_are_reported_when_received";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (mut sender, mut receiver) = (pvm.task(), pvm.task());
    let (served, from, to) = (Served::start("ebpf"), sender.pid().0, receiver.pid().0);
    let mut session = tool(&served, &[from, to]);
    watch(&mut session, &format!("tagged_message_recv([{to}],-5)"), "$1,$2,$3");
    let unpacked = reply_to(&mut session, &format!("tag_message({from},0,5)"));
    assert!(unpacked.starts_with("tag_message(402,"), "{unpacked}");
    for (tag, mark) in [(300, None), (301, Some(-5)), (302, Some(7)), (303, Some(-5))] {
        assert_eq!(sender.run("pack 8"), "0");
        let buffer = reply_to(&mut session, &format!("message_buffer({from})"));
        let buffer = buffer.strip_prefix("message_buffer(0,").unwrap().split(',').next().unwrap();
        if let Some(mark) = mark {
            let reply = reply_to(&mut session, &format!("tag_message({from},{buffer},{mark})"));
            assert_eq!(reply, "tag_message(0)");
        }
        assert_eq!(sender.run(&format!("post {} {tag}", receiver.tid)), "0");
    }
    let elsewhere = reply_to(&mut session, &format!("tag_message({from},4096,5)"));
    assert!(elsewhere.starts_with("tag_message(402,"), "{elsewhere}");
    crate::deadline::until(|| (receiver.run("probe 303") == "1").then_some(()));
    let info = reply_to(&mut session, &format!("queue_info({to},18)"));
    assert_eq!(info, "queue_info(0,4,[300,0,0,301,1,-5,302,1,7,303,1,-5])");
    for tag in [303, 302, 301, 300] {
        let _received = receiver.run(&format!("receive -1 {tag}"));
    }
    for tag in [303, 301] {
        let want = format!("11 [0] print(0,[{to},{},{tag}])", sender.tid);
        assert_eq!(session.line(), Some(want));
    }
}

#[test]
fn root_each_message_that_arrives_in_open_mpi_is_reported() {
    const TEST: &str = "root_each_message_that_arrives_in_open_mpi_is_reported";
    if !granted(TEST) {
        return;
    }
    let Some(mut ranks) = Ranks::start(TEST, &OPEN_MPI) else { return };
    let (served, to) = (Served::start("ebpf"), ranks.pids[1].0);
    let mut session = tool(&served, &[to]);
    watch(&mut session, &format!("message_arrived([{to}])"), "$1,$2,$3,$4");
    ranks.run("fill 23");
    let small = (0..23).map(|n| (300 + n, 8 * (10 + n)));
    // The large message arrives as a header that has its length.
    for (tag, bytes) in small.chain([(900, 8 * 65536), (999, 8)]) {
        let want = format!("11 [0] print(0,[{to},0,{tag},{bytes}])");
        assert_eq!(session.line(), Some(want));
    }
    let refused = reply_to(&mut session, &format!("insert_message({to},[1],-1)"));
    assert!(refused.starts_with("insert_message(402,"), "{refused}");
}

#[test]
fn root_messages_that_arrive_in_pvm_are_reported_without_those_of_its_daemon() {
    const TEST: &str = "root_messages_that_arrive_in_pvm_are_reported_without_those_of_its_daemon";
    if !granted(TEST) {
        return;
    }
    let Some(pvm) = Pvm::start(TEST) else { return };
    let (mut sender, mut receiver) = (pvm.task(), pvm.task());
    let (served, to) = (Served::start("ebpf"), receiver.pid().0);
    let mut session = tool(&served, &[to]);
    watch(&mut session, "message_arrived([])", "$1,$2,$3,$4");
    let _sent = sender.run(&format!("many 23 {} 100", receiver.tid));
    crate::deadline::until(|| (receiver.run("probe 122") == "1").then_some(()));
    for n in 0..23 {
        let want = format!("11 [0] print(0,[{to},{},{},{}])", sender.tid, 100 + n, 10 * n);
        assert_eq!(session.line(), Some(want));
    }
}
