//! TCP traffic has one owner: sockets that are passed on, listeners, and MPTCP.

use super::actor::Actor;
use super::privilege::skip;
use super::tcp::{Pair, opened, payload, read};
use super::workload::{alive, until};
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::sample::Sample;

/// Passes the socket `s` of one process to another by message, and closes it there.
fn pass(from: &mut Actor, to: &mut Actor) {
    let name = format!("'\\0monitor-test-{}'", to.pid().0);
    let _ = to.run(&format!("u = socket.socket(socket.AF_UNIX); u.bind({name}); u.listen(1)"));
    let _ = from.run(&format!("v = socket.socket(socket.AF_UNIX); v.connect({name})"));
    let _ = from.run("it = socket.send_fds(v, [b'x'], [s.fileno()]); s.close()");
    let _ = to.run("s = socket.socket(fileno=socket.recv_fds(u.accept()[0], 1, 1)[1][0]); it = 0");
}

/// What each process has sent.
fn sent<const N: usize>(sample: &Sample, actors: [&Actor; N]) -> [u64; N] {
    actors.map(|actor| payload(alive(sample, actor.pid()).unwrap())[0])
}

/// A connection that carried 1,000,003 bytes, and whose client then passed its socket to a third
/// process; none if the test is skipped.
fn passed(test: &str) -> Option<(Ebpf, Pair, Actor)> {
    let mut backend = opened(test)?;
    let mut pair = Pair::connected("AF_INET");
    let mut heir = Actor::new();
    pair.carry(1_000_003);
    assert_eq!(sent(&read(&mut backend), [&pair.client, &heir]), [1_000_003, 0]);
    pass(&mut pair.client, &mut heir);
    Some((backend, pair, heir))
}

#[test]
fn root_a_socket_passed_by_message_counts_once_at_its_close() {
    let name = "root_a_socket_passed_by_message_counts_once_at_its_close";
    let Some((mut backend, mut pair, mut heir)) = passed(name) else { return };
    pair.server.begin("receive(s, 500_009)");
    let _ = heir.run("send(s, 500_009); s.close()");
    let _ = pair.server.end();
    let sample = read(&mut backend);
    assert_eq!(sent(&sample, [&pair.client, &heir]), [1_000_003, 500_009]);
    assert_eq!(payload(alive(&sample, pair.server.pid()).unwrap()), [0, 1_500_012]);
}

#[test]
fn root_a_socket_passed_by_message_counts_once_while_it_is_open() {
    let name = "root_a_socket_passed_by_message_counts_once_while_it_is_open";
    let Some((mut backend, mut pair, mut heir)) = passed(name) else { return };
    // An accepted connection makes the next reading look for holders.
    let _other = Pair::connected("AF_INET");
    assert_eq!(sent(&read(&mut backend), [&pair.client, &heir]), [1_000_003, 0]);
    pair.server.begin("receive(s, 500_009)");
    let _ = heir.run("send(s, 500_009)");
    let _ = pair.server.end();
    assert_eq!(sent(&read(&mut backend), [&pair.client, &heir]), [1_000_003, 500_009]);
    let _ = heir.run("s.close()");
    assert_eq!(sent(&read(&mut backend), [&pair.client, &heir]), [1_000_003, 500_009]);
}

#[test]
fn root_a_reader_that_ends_after_a_pass_has_what_it_moved() {
    let name = "root_a_reader_that_ends_after_a_pass_has_what_it_moved";
    let Some(mut backend) = opened(name) else { return };
    let mut pair = Pair::connected("AF_INET6");
    pair.carry(700_001);
    assert_eq!(sent(&read(&mut backend), [&pair.client]), [700_001]);
    let mut heir = Actor::new();
    pass(&mut pair.client, &mut heir);
    pair.server.begin("receive(s, 300_007)");
    let _ = heir.run("send(s, 300_007)");
    let _ = pair.server.end();
    let pid = heir.pid();
    heir.leave();
    let mut of_heir = None;
    let last = until(&mut backend, &super::workload::processes(), |sample| {
        of_heir = sample.processes.iter().find(|it| it.id.pid == pid && it.ended()).map(payload);
        of_heir.is_some()
    });
    assert_eq!(of_heir, Some([300_007, 0]));
    assert_eq!(sent(&last, [&pair.client]), [700_001]);
}

#[test]
fn root_listeners_that_are_shut_down_carry_nothing() {
    let Some(mut backend) = opened("root_listeners_that_are_shut_down_carry_nothing") else {
        return;
    };
    let mut actor = Actor::new();
    let _ = actor.run("all = [listening(socket.AF_INET) for _ in range(23)]; it = len(all)");
    assert_eq!(payload(alive(&read(&mut backend), actor.pid()).unwrap()), [0, 0]);
    let _ = actor.run("it = len([l.shutdown(socket.SHUT_RDWR) for l in all])");
    assert_eq!(payload(alive(&read(&mut backend), actor.pid()).unwrap()), [0, 0]);
    let _ = actor.run("it = len([l.close() for l in all])");
    assert_eq!(payload(alive(&read(&mut backend), actor.pid()).unwrap()), [0, 0]);
}

/// Makes `socket.socket` create MPTCP sockets.
const MPTCP: &str = "Plain = socket.socket; \
     socket.socket = lambda family, type=1, proto=262, fileno=None: \
         Plain(family, type, proto, fileno)";

/// A process whose sockets are MPTCP sockets; none where the kernel has none.
fn mptcp_actor() -> Option<Actor> {
    let mut actor = Actor::new();
    let _ = actor.run(MPTCP);
    let made = "\
         it = subprocess.call([sys.executable, '-c', 'import socket; socket.socket(2, 1, 262)'])";
    (actor.run(made) == 0).then_some(actor)
}

/// Carries a known amount between these processes, and compares both ends, open and closed.
#[track_caller]
fn check_mptcp(name: &str, ends: Option<(Actor, Actor)>) {
    let Some(mut backend) = opened(name) else { return };
    let Some((client, server)) = ends else { return skip(name, "the kernel has no MPTCP") };
    let mut pair = Pair::between(client, server, "AF_INET");
    pair.carry(1_000_003);
    let want = [[1_000_003, 0], [0, 1_000_003]];
    let open = read(&mut backend);
    let client = alive(&open, pair.client.pid()).unwrap();
    if client.row.get(F::TcpSent).is_none() {
        assert!(open.notes.iter().any(|note| note.text.contains("MPTCP")), "{:?}", open.notes);
        return println!("{name}: absent with a note, this kernel does not count MPTCP");
    }
    assert_eq!(pair.payload(&open), want, "while open");
    assert_eq!(client.row.get(F::TcpSockets), Some(1));
    pair.both("s.shutdown(socket.SHUT_WR)");
    assert_eq!(pair.payload(&read(&mut backend)), want, "shut down");
    pair.both("s.close()");
    assert_eq!(pair.payload(&read(&mut backend)), want, "closed");
}

#[test]
fn root_mptcp_counts_at_both_ends() {
    let ends = mptcp_actor().zip(mptcp_actor());
    check_mptcp("root_mptcp_counts_at_both_ends", ends);
}

#[test]
fn root_mptcp_that_falls_back_to_tcp_counts_at_both_ends() {
    let ends = mptcp_actor().map(|client| (client, Actor::new()));
    check_mptcp("root_mptcp_that_falls_back_to_tcp_counts_at_both_ends", ends);
}
