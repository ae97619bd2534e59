//! Shares of the ring of records: what a user loses, no other user loses.

use super::{RECORD, RuleFixture};
use crate::root::privilege::granted;
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, Rules as _};

const STORMING: u32 = 61_001;
const QUIET: u32 = 61_002;
/// More records than the ring can take.
const STORM: u64 = 60_000;

impl RuleFixture {
    fn program_of(&mut self, function: &str, user: Option<u32>) -> ProgramId {
        let hook = HookPoint::Entry(self.function(function));
        let program = RuleProgram::new(hook, Some(self.set), vec![RECORD]);
        let id = self.rules.add(&RuleProgram { user, ..program }).unwrap();
        self.rules.enable(id);
        id
    }
}

#[test]
fn root_a_storm_of_records_of_one_user_loses_no_record_of_another() {
    if !granted("root_a_storm_of_records_of_one_user_loses_no_record_of_another") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let storming = fixture.program_of("labs", Some(STORMING));
    let quiet = fixture.program_of("abs", Some(QUIET));
    // Nothing is read meanwhile.
    let mut storm = || {
        let calls = format!("it = [l.labs(1) for _ in range({STORM})][0]");
        let _ = fixture.target.run(&calls);
        let _ = fixture.target.run("it = [l.abs(1) for _ in range(500)][0]");
    };
    storm();
    storm();
    let count = |fixture: &RuleFixture, id| {
        let counts = fixture.rules.run_counts(id);
        (counts.runs, counts.lost_records)
    };
    let (runs, lost) = count(&fixture, storming);
    assert_eq!((runs, count(&fixture, quiet)), (2 * STORM, (1000, 0)));
    assert!(lost > 0, "the ring takes {STORM} records");
    let by_user = fixture.rules.lost_records();
    assert_eq!((by_user[&Some(STORMING)], by_user[&Some(QUIET)]), (lost, 0));
    let records = fixture.take_records();
    let of = |id| records.iter().filter(|it| it.program == id).count() as u64;
    assert_eq!((of(storming), of(quiet)), (runs - lost, 1000));
    // What was read is no longer in its share.
    let _ = fixture.target.run("it = [l.labs(1) for _ in range(1000)][0]");
    assert_eq!(count(&fixture, storming), (runs + 1000, lost));
}

#[test]
fn root_records_of_shared_programs_are_in_the_share_of_the_owner_of_the_process() {
    if !granted("root_records_of_shared_programs_are_in_the_share_of_the_owner_of_the_process") {
        return;
    }
    let mut fixture = RuleFixture::new();
    // The target gives up its rights and stays dumpable, as the processes of a user are.
    let _ = fixture.target.run(&format!(
        "os.setgroups([]); os.setresgid(*[{STORMING}] * 3); os.setresuid(*[{STORMING}] * 3); \
         l.prctl(4, 1, 0, 0, 0); it = os.getuid()"
    ));
    let pid = fixture.target.pid();
    fixture.rules.include(fixture.set, pid).unwrap();
    let shared = fixture.program_of("labs", None);
    let _ = fixture.target.run(&format!("it = [l.labs(1) for _ in range({STORM})][0]"));
    let lost = fixture.rules.run_counts(shared).lost_records;
    assert!(lost > 0, "the ring takes {STORM} records");
    let by_user = fixture.rules.lost_records();
    assert_eq!((by_user[&Some(STORMING)], by_user[&None]), (lost, 0), "{by_user:?}");
}
