//! `job_calls` through the socket of a service: calls of the ranks of a caller without privilege,
//! what others are refused, and what is left of the probes when the caller disconnects.

use crate::deadline;
use crate::probe::mpi::{MPICH, OPEN_MPI, Ranks};
use crate::root::harmless::changed_code;
use crate::root::privilege::{USER, able, as_user, granted};
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::Value;

/// Messages in each direction.
const MESSAGES: u64 = 200;
/// Seconds of a measurement, at first: the code of the ranks is read meanwhile, which takes some.
const SECONDS: u32 = 8;

fn changed(ranks: &Ranks) -> Vec<Vec<(String, u64)>> {
    ranks.pids.iter().map(|pid| changed_code(pid.0)).collect()
}

/// A service whose ordinary users control their processes.
fn served() -> Served {
    Served::started(&format!("[policy]\ncontrol-own = [\"{USER}\"]\n"), monitor(), "ebpf")
}

/// The results of a reply of `job_calls`, with its status.
#[track_caller]
fn results(reply: &str) -> Vec<Value> {
    let begin = reply.find('(').unwrap() + 1;
    let values = &reply[begin..reply.rfind(')').unwrap()];
    serde_json::from_str(&format!("[{values}]")).unwrap_or_else(|why| panic!("{reply}: {why}"))
}

/// Places in the code of both ranks that differ from their files.
fn n_changed(ranks: &Ranks) -> usize {
    changed(ranks).iter().map(Vec::len).sum()
}

/// Sends the request, and waits until both ranks have probes.
#[track_caller]
fn begin(
    session: &mut SocketSession,
    (ranks, before): (&Ranks, &[Vec<(String, u64)>]),
    what: &str,
) {
    let job = ranks.starter_pid().0;
    session.send(format!("10 [0] job_calls(\"{job}\",{what})\n").as_bytes()).unwrap();
    deadline::until(|| {
        let now = changed(ranks);
        now.iter().zip(before).all(|(now, before)| now != before).then_some(())
    });
}

/// The reply of a measurement in which all messages were sent.
#[track_caller]
fn measured(session: &mut SocketSession, ranks: &mut Ranks, what: &str) -> String {
    let before = changed(ranks);
    let mut seconds = SECONDS;
    loop {
        begin(session, (ranks, &before), &format!("{seconds},\"{what}\",100"));
        ranks.run(&format!("go {MESSAGES}"));
        let is_whole = changed(ranks).iter().zip(&before).all(|(now, before)| now != before);
        let reply = session.line().unwrap();
        deadline::until(|| (changed(ranks) == before).then_some(()));
        if is_whole {
            return reply;
        }
        seconds *= 2;
    }
}

#[track_caller]
fn check_calls(session: &mut SocketSession, ranks: &mut Ranks, what: &str) {
    let reply = measured(session, ranks, what);
    println!("{reply}");
    let all = results(&reply);
    assert_eq!(all[0], 0, "{reply}");
    let ranks_of = all[1].as_array().unwrap();
    let pids: Vec<_> = ranks_of.chunks(6).map(|it| it[1].as_u64().unwrap()).collect();
    assert_eq!(pids, ranks.pids.iter().map(|it| u64::from(it.0)).collect::<Vec<_>>());
    let send = all[2].as_array().unwrap().chunks(8).find(|it| it[0] == "MPI_Send").unwrap();
    let numbers: u64 = (0..MESSAGES).map(|it| 10 + it + 1).sum();
    assert_eq!((&send[1], &send[5]), (&(2 * MESSAGES).into(), &(8 * numbers).into()), "{reply}");
    let [time, mean, max] = [2, 3, 4].map(|it| send[it].as_f64().unwrap());
    assert_eq!(what != "counts", time >= max && max >= mean && mean > 0.0, "{reply}");
    let place = all[3].as_array().unwrap().chunks(9).find(|it| it[0] == "MPI_Send").unwrap();
    assert!(place[1] == "go" || place[1] == "main", "{reply}");
}

#[test]
fn root_the_service_measures_calls_of_the_ranks_of_a_user_without_privilege() {
    const TEST: &str = "root_the_service_measures_calls_of_the_ranks_of_a_user";
    if !able(TEST) {
        return;
    }
    let served = served();
    let mut session = as_user(&[], || served.connect());
    let ways: [(_, &[_]); 2] = [(&MPICH, &["timed", "trampoline"]), (&OPEN_MPI, &["counts"])];
    for (library, ways) in ways {
        let Some(mut ranks) = Ranks::start_as(TEST, library, USER) else { return };
        for what in ways {
            check_calls(&mut session, &mut ranks, what);
        }
        ranks.end();
    }
}

#[test]
fn root_a_measurement_ends_with_the_connection_of_its_tool() {
    const TEST: &str = "root_a_measurement_ends_with_the_connection_of_its_tool";
    if !able(TEST) {
        return;
    }
    let served = served();
    let Some(mut ranks) = Ranks::start_as(TEST, &MPICH, USER) else { return };
    let before = changed(&ranks);
    let connect = || as_user(&[], || served.connect());
    let (mut first, mut second) = (connect(), connect());
    begin(&mut first, (&ranks, &before), "300,\"counts\",0");
    begin(&mut second, (&ranks, &before), "300,\"timed\",0");
    // Other tools are served meanwhile.
    let job = ranks.starter_pid().0;
    let mut third = connect();
    let reply = third.request(&format!("10 [0] job_calls(\"{job}\",1,\"counts\",0)"));
    assert!(reply.contains("2 measurements of this user are running"), "{reply}");
    let mut root = served.connect();
    let reply = root.request(&format!("10 [0] job_calls(\"{job}\",1,\"trampoline\",0)"));
    let why = format!("belongs to user {USER}, and a return trampoline can end it");
    assert!(reply.contains("job_calls(4") && reply.contains(&why), "{reply}");
    let reply = root.request(&format!("11 [0] job_calls(\"{job}\",1,\"counts\",0)"));
    assert!(reply.contains("job_calls(0,"), "{reply}");
    // By now all probes are set.
    let of_both = n_changed(&ranks);
    drop(second);
    deadline::until(|| (n_changed(&ranks) < of_both).then_some(()));
    assert_ne!(changed(&ranks), before, "those of the first are there");
    drop(first);
    deadline::until(|| (changed(&ranks) == before).then_some(()));
    let reply = third.request(&format!("11 [0] job_calls(\"{job}\",1,\"counts\",0)"));
    assert!(reply.contains("job_calls(0,"), "{reply}");
    ranks.end();
}

#[test]
fn root_the_service_measures_no_ranks_of_others() {
    const TEST: &str = "root_the_service_measures_no_ranks_of_others";
    if !granted(TEST) {
        return;
    }
    let served = served();
    let Some(mut ranks) = Ranks::start(TEST, &MPICH) else { return };
    let before = changed(&ranks);
    let mut session = as_user(&[], || served.connect());
    let job = ranks.starter_pid().0;
    let reply = session.request(&format!("10 [0] job_calls(\"{job}\",1,\"counts\",0)"));
    assert!(reply.contains("job_calls(300,"), "{reply}");
    assert_eq!(changed(&ranks), before);
    ranks.end();
}
