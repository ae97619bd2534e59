//! Cases of one executor: what it does after entries, members and answers of the bus.

use super::super::ledger::MemoryLedger;
use super::*;
use crate::bus::entry::{BusEntry, Command, FORMATS, LedgerId, ReplyStatus, StreamTime, Targets};
use crate::bus::membership::Membership;

const SECOND: u64 = 1_000_000_000;
const LEDGER: LedgerId = LedgerId(7);

/// A node `n`, its members, and its time: one millisecond per call.
struct Bench {
    executor: CommandExecutor<MemoryLedger>,
    members: Membership,
    now: u64,
    /// By how much the clock of the stream was set, ns.
    set_by: i64,
}

impl Bench {
    fn new() -> Self {
        let (executor, out) =
            CommandExecutor::new(("n", ""), MemoryLedger::new(LEDGER.0), Ns(SECOND)).unwrap();
        assert!(is_joining(&out, 1), "{out:?}");
        Self { executor, members: Membership::default(), now: SECOND, set_by: 0 }
    }

    fn member() -> Self {
        let mut bench = Self::new();
        drop(bench.entry(10, "n", joined(1)));
        assert!(bench.executor.is_member());
        bench
    }

    /// Sets the clock of the stream.
    fn clock_set_by(&mut self, seconds: i64) {
        self.set_by = seconds * SECOND.cast_signed();
    }

    fn stamp(&self) -> StreamTime {
        StreamTime(self.now.saturating_add_signed(self.set_by))
    }

    fn now(&mut self) -> Ns {
        self.now += 1_000_000;
        Ns(self.now)
    }

    fn entry(&mut self, seq: u64, origin: &str, body: EntryBody) -> Outputs {
        self.entry_with_id(seq, (origin, seq), body)
    }

    fn entry_with_id(&mut self, seq: u64, id: (&str, u64), body: EntryBody) -> Outputs {
        let (origin, number) = (id.0.to_owned(), id.1);
        let entry = BusEntry { origin, id: EntryId { start: 1, number }, body };
        let now = self.now();
        let at = SequencedEntry { seq: Seq(seq), stamp: self.stamp(), entry };
        let change = self.members.apply(&at);
        self.executor.entry(now, at, change)
    }

    fn base(&mut self, cause: BaseCause, as_of: u64, own: Option<MemberRecord>) -> Outputs {
        self.members = Membership::new(Seq(as_of), own.into_iter().collect());
        let base = BaseNotice { cause, as_of: Seq(as_of), own: self.members.get("n") };
        self.now += 1_000_000;
        self.executor.base(Ns(self.now), &base)
    }

    fn own_record(&mut self, member: Option<MemberRecord>) -> Outputs {
        self.own_record_at((1, 100), member)
    }

    fn own_record_at(
        &mut self,
        (first, last): (u64, u64),
        member: Option<MemberRecord>,
    ) -> Outputs {
        let (asked, stamp) = (Ns(self.now), self.stamp());
        let now = self.now();
        let kept = Some((Seq(first), Seq(last)));
        let record = OwnRecord { asked, stamp, stamped: now, member, kept };
        self.executor.own_record(now, &record)
    }

    /// Lets time pass without a pause.
    fn pass(&mut self, seconds: u64) -> Outputs {
        let mut out = Vec::new();
        for _ in 0..(seconds * SECOND).div_ceil(TICK.0) {
            self.now += TICK.0;
            out.extend(self.executor.tick(Ns(self.now)));
        }
        out
    }
}

fn joined(incarnation: u64) -> EntryBody {
    let incarnation = Incarnation(incarnation);
    EntryBody::Joined {
        incarnation,
        ledger: LEDGER,
        since: None,
        formats: FORMATS,
        aggregators: String::new(),
    }
}

fn removed(incarnation: u64) -> EntryBody {
    EntryBody::Removed { node: "n".into(), incarnation: Incarnation(incarnation) }
}

fn command(begin_within: u64) -> EntryBody {
    let not_after = StreamTime(u64::MAX);
    let (begin_within, payload) = (Ns(begin_within), b"x".to_vec());
    EntryBody::Command(Command { targets: Targets::All, uid: 0, begin_within, not_after, payload })
}

fn record(incarnation: u64, ledger: LedgerId, since: u64) -> MemberRecord {
    let (incarnation, since) = (Incarnation(incarnation), Seq(since));
    MemberRecord {
        node: "n".into(),
        ledger,
        incarnation,
        since,
        is_draining: false,
        formats: FORMATS,
        aggregators: String::new(),
    }
}

fn is_joining(out: &Outputs, stay: u64) -> bool {
    out.iter().any(|output| {
        matches!(output, ExecutorOutput::Multicast(EntryBody::Joined { incarnation, since, .. })
            if (*incarnation, *since) == (Incarnation(stay), None))
    })
}

fn is_executing(out: &Outputs) -> bool {
    out.iter().any(|output| matches!(output, ExecutorOutput::Execute(_)))
}

fn status(out: &Outputs) -> Option<&ReplyStatus> {
    out.iter().find_map(|output| match output {
        ExecutorOutput::Reply { reply, .. } => Some(&reply.status),
        _ => None,
    })
}

#[test]
fn a_removal_in_a_gap_ends_the_stay() {
    let mut bench = Bench::member();
    assert!(is_executing(&bench.entry(11, "c", command(SECOND))));
    let out = bench.base(BaseCause::Gap, 50, None);
    assert!(is_joining(&out, 2), "{out:?}");
    let out = bench.entry(51, "c", command(SECOND));
    assert!(matches!(status(&out), Some(ReplyStatus::Refused(_))), "{out:?}");
    drop(bench.entry(52, "n", joined(2)));
    assert!(is_executing(&bench.entry(53, "c", command(SECOND))));
}

#[test]
fn a_gap_that_has_not_ended_the_stay_changes_nothing() {
    let mut bench = Bench::member();
    assert_eq!(bench.base(BaseCause::Gap, 50, Some(record(1, LEDGER, 10))), []);
    assert!(is_executing(&bench.entry(49, "c", command(SECOND))));
}

#[test]
fn a_joining_in_a_gap_is_noticed_and_confirmed() {
    let mut bench = Bench::new();
    let out = bench.base(BaseCause::Gap, 50, Some(record(1, LEDGER, 20)));
    assert!(bench.executor.is_member() && out.contains(&ExecutorOutput::ReadOwnRecord), "{out:?}");
    assert_eq!(bench.entry(51, "c", command(SECOND)), [], "it waits for a round trip");
    let out = bench.own_record(Some(record(1, LEDGER, 20)));
    assert!(is_executing(&out), "{out:?}");
}

#[test]
fn a_removal_in_a_gap_refuses_what_waited_since_a_pause() {
    let mut bench = Bench::member();
    bench.now += 2 * PAUSE.0;
    assert_eq!(bench.entry(11, "c", command(9 * SECOND)), [ExecutorOutput::ReadOwnRecord]);
    let out = bench.base(BaseCause::Gap, 50, None);
    assert!(matches!(status(&out), Some(ReplyStatus::Refused(_))), "{out:?}");
    assert!(is_joining(&out, 2) && !is_executing(&out), "{out:?}");
}

#[test]
fn lost_entries_end_the_stay_also_where_as_many_new_ones_came() {
    let mut bench = Bench::member();
    assert!(is_executing(&bench.entry_with_id(11, ("c", 1), command(SECOND))));
    let out = bench.base(BaseCause::Lost, 50, Some(record(1, LEDGER, 10)));
    assert!(is_joining(&out, 2), "{out:?}");
    drop(bench.entry(51, "n", joined(2)));
    assert_eq!(bench.entry_with_id(52, ("c", 1), command(SECOND)), [], "it was executed before");
    assert!(is_executing(&bench.entry_with_id(53, ("c", 2), command(SECOND))));
}

#[test]
fn a_copy_of_what_was_refused_or_expired_is_not_executed() {
    let mut bench = Bench::member();
    let out = bench.entry_with_id(11, ("c", 1), command(0));
    assert_eq!(status(&out), Some(&ReplyStatus::Expired));
    drop(bench.entry(12, "s", removed(1)));
    let out = bench.entry_with_id(13, ("c", 2), command(SECOND));
    assert!(matches!(status(&out), Some(ReplyStatus::Refused(_))), "{out:?}");
    // The server loses them, and gets the copies again when the node is a member.
    drop(bench.base(BaseCause::Lost, 10, Some(record(1, LEDGER, 10))));
    drop(bench.entry(11, "n", joined(3)));
    assert!(bench.executor.is_member());
    assert_eq!(bench.entry_with_id(12, ("c", 1), command(SECOND)), []);
    assert_eq!(bench.entry_with_id(13, ("c", 2), command(SECOND)), []);
}

#[test]
fn what_waits_for_too_long_a_queue_is_refused_for_good() {
    let mut bench = Bench::member();
    bench.now += 2 * PAUSE.0;
    let n_held = MAX_HELD as u64;
    for seq in 11..11 + n_held {
        drop(bench.entry(seq, "c", command(9 * SECOND)));
    }
    let out = bench.entry_with_id(11 + n_held, ("c", 9999), command(9 * SECOND));
    assert!(matches!(status(&out), Some(ReplyStatus::Refused(_))), "{out:?}");
    let key = EntryKey::new(&BusEntry {
        origin: "c".into(),
        id: EntryId { start: 1, number: 9999 },
        body: command(SECOND),
    });
    assert!(bench.executor.ledger.contains(key), "a copy is not executed");
    let out = bench.own_record(None);
    let n_refused = out.iter().filter(|it| matches!(it, ExecutorOutput::Reply { .. })).count();
    assert_eq!(n_refused, MAX_HELD, "earlier ones are refused too");
}

#[test]
fn a_name_that_became_free_unnoticed_is_taken_at_the_next_answer() {
    let mut bench = Bench::new();
    assert_eq!(bench.executor.name_in_use(Ns(SECOND)), [ExecutorOutput::NameInUse]);
    let asked = bench.pass(6);
    assert!(asked.contains(&ExecutorOutput::ReadOwnRecord), "{asked:?}");
    assert!(!is_joining(&bench.own_record(Some(record(4, LedgerId(8), 3))), 2), "it is in use");
    assert!(is_joining(&bench.own_record(None), 2));
}

#[test]
fn a_name_that_became_free_in_a_gap_is_taken() {
    for cause in [BaseCause::Gap, BaseCause::Lost] {
        let mut bench = Bench::new();
        drop(bench.executor.name_in_use(Ns(SECOND)));
        assert_eq!(bench.base(cause, 50, Some(record(4, LedgerId(8), 3))), []);
        assert!(is_joining(&bench.base(cause, 60, None), 2), "{cause:?}");
    }
}

#[test]
fn a_node_that_has_left_can_join_again() {
    let mut bench = Bench::member();
    assert_eq!(bench.executor.leave(Ns(bench.now)).len(), 1);
    drop(bench.entry(11, "n", EntryBody::Left { incarnation: Incarnation(1) }));
    assert!(!bench.executor.is_member());
    let out = bench.executor.join_again(Ns(bench.now));
    assert!(is_joining(&out, 2), "{out:?}");
}

#[test]
fn a_node_that_wants_to_leave_says_so_until_it_has() {
    let mut bench = Bench::member();
    let left = bench.executor.leave(Ns(bench.now));
    assert!(bench.pass(6).iter().any(|output| left.contains(output)));
    // It is removed before its own entry gets a position: it does not come back.
    let out = bench.entry(12, "s", removed(1));
    assert!(!is_joining(&out, 2) && !bench.executor.is_member(), "{out:?}");
}

#[test]
fn a_node_that_was_removed_in_a_pause_while_it_joined_executes_nothing_of_that_stay() {
    let mut bench = Bench::new();
    bench.now += 2 * PAUSE.0;
    let out = bench.executor.tick(Ns(bench.now));
    assert!(out.contains(&ExecutorOutput::ReadOwnRecord), "{out:?}");
    // It has joined at 10 and was removed at 12; those entries come later than the answer.
    assert!(is_joining(&bench.own_record(None), 2));
    drop(bench.entry(10, "n", joined(1)));
    assert!(!is_executing(&bench.entry(11, "c", command(9 * SECOND))));
    drop(bench.entry(12, "s", removed(1)));
    drop(bench.entry(13, "n", joined(2)));
    assert!(is_executing(&bench.entry(14, "c", command(SECOND))));
}

#[test]
fn a_stay_that_began_again_executes_nothing_from_before() {
    let mut bench = Bench::new();
    bench.now += 2 * PAUSE.0;
    drop(bench.executor.tick(Ns(bench.now)));
    // It has joined at 10, was removed at 12, and a late copy of its entry came at 13.
    drop(bench.own_record(Some(record(1, LEDGER, 13))));
    drop(bench.entry(10, "n", joined(1)));
    assert!(!is_executing(&bench.entry(11, "c", command(9 * SECOND))));
}

#[test]
fn a_node_that_drains_executes_and_then_leaves() {
    let mut bench = Bench::member();
    let out = bench.executor.drain(Ns(bench.now), Ns(2 * SECOND));
    let [ExecutorOutput::Multicast(draining @ EntryBody::Draining { since: Seq(10), .. })] =
        out.as_slice()
    else {
        panic!("{out:?}")
    };
    assert!(bench.pass(6).contains(&out[0]), "it is announced again until it is in the order");
    drop(bench.entry(11, "n", draining.clone()));
    assert!(is_executing(&bench.entry(12, "c", command(SECOND))));
    let left = ExecutorOutput::Multicast(EntryBody::Left { incarnation: Incarnation(1) });
    assert!(!bench.pass(1).contains(&left));
    assert!(bench.pass(2).contains(&left));
    assert!(is_executing(&bench.entry(13, "c", command(SECOND))), "until that is in the order");
}

#[test]
fn a_node_that_drains_does_not_come_back_when_it_is_removed() {
    let mut bench = Bench::member();
    drop(bench.executor.drain(Ns(bench.now), Ns(2 * SECOND)));
    let out = bench.entry(11, "s", removed(1));
    assert!(!is_joining(&out, 2) && !bench.executor.is_member(), "{out:?}");
}

#[test]
fn an_early_entry_of_a_member_is_repeated_once_where_the_bus_drops_some() {
    let mut bench = Bench::member();
    let member = || Some(record(1, LEDGER, 10));
    let repeats = |out: Outputs| {
        let is_repeat = |output: &&ExecutorOutput| {
            matches!(output, ExecutorOutput::Multicast(EntryBody::Joined { since: Some(_), .. }))
        };
        out.iter().filter(is_repeat).count()
    };
    drop(bench.pass(6));
    for last in [100, 5000, 9000] {
        assert_eq!(repeats(bench.own_record_at((1, last), member())), 0, "nothing is dropped");
    }
    assert_eq!(repeats(bench.own_record_at((5, 9000), member())), 1);
    let again = EntryBody::Joined {
        incarnation: Incarnation(1),
        ledger: LEDGER,
        since: Some(Seq(10)),
        formats: FORMATS,
        aggregators: String::new(),
    };
    drop(bench.entry(9001, "n", again));
    drop(bench.pass(6));
    assert_eq!(repeats(bench.own_record_at((6, 9001), member())), 0, "it is late now");
    assert_eq!(repeats(bench.own_record_at((8000, 20_000), member())), 1);
}

#[test]
fn a_slow_round_trip_is_soon_followed_by_another_one() {
    let is_asking = |out: &Outputs| out.contains(&ExecutorOutput::ReadOwnRecord);
    let mut bench = Bench::new();
    // The entry of the stay takes three seconds.
    assert!(!is_asking(&bench.pass(3)));
    drop(bench.entry(10, "n", joined(1)));
    assert!(is_asking(&bench.pass(3)));
    // A deadline was up to three seconds early until then.
    drop(bench.own_record(Some(record(1, LEDGER, 10))));
    assert!(!is_asking(&bench.pass(80)) && is_asking(&bench.pass(80)));
}

#[test]
fn a_clock_that_was_set_is_asked_for_at_the_next_entries() {
    let is_asking = |out: &Outputs| out.contains(&ExecutorOutput::ReadOwnRecord);
    for set_by in [-5, 5] {
        let mut bench = Bench::member();
        drop(bench.own_record(Some(record(1, LEDGER, 10))));
        assert!(!is_asking(&bench.pass(50)));
        bench.clock_set_by(set_by);
        drop(bench.entry(11, "c", command(SECOND)));
        assert!(is_asking(&bench.pass(2)), "{set_by}");
        drop(bench.own_record(Some(record(1, LEDGER, 10))));
        assert!(!is_asking(&bench.pass(50)), "{set_by}");
    }
}

#[test]
fn where_many_bytes_come_the_bus_is_asked_what_it_keeps() {
    let is_asking = |out: &Outputs| out.contains(&ExecutorOutput::ReadOwnRecord);
    let mut bench = Bench::member();
    let mut n_asked = 0;
    for seq in 0..40 {
        let EntryBody::Command(mut large) = command(SECOND) else { unreachable!() };
        large.payload = vec![b'x'; 1 << 20];
        drop(bench.entry(11 + seq, "c", EntryBody::Command(large)));
        if is_asking(&bench.pass(1)) {
            n_asked += 1;
            drop(bench.own_record(Some(record(1, LEDGER, 10))));
        }
    }
    assert!((2..=3).contains(&n_asked), "{n_asked}");
}
