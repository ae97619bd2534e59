//! What a process asks for when it starts programs: where they are held, beside what they run, and
//! which process gets their output.
//!
//! In: attributes of `PMIx_Spawn`. Out: the request; or the status that refuses it.

use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::kind;
use crate::status;
use crate::upcall::SpawnedApp;
use std::ffi::c_int;

/// `PMIX_DEBUG_STOP_ON_EXEC`.
pub const STOP_ON_EXEC: &str = "pmix.dbg.exec";
/// `PMIX_DEBUG_STOP_IN_INIT`.
pub const STOP_IN_INIT: &str = "pmix.dbg.init";
/// `PMIX_DEBUG_STOP_IN_APP`.
pub const STOP_IN_APP: &str = "pmix.dbg.notify";
/// `PMIX_DEBUGGER_DAEMONS`.
const DAEMONS: &str = "pmix.debugger";
/// `PMIX_DEBUG_TARGET`, and `PMIX_DEBUG_JOB` of older versions.
pub const TARGET: &str = "pmix.dbg.tgt";
const OLD_TARGET: &str = "pmix.dbg.job";
/// `PMIX_DEBUG_DAEMONS_PER_PROC`.
const PER_RANK: &str = "pmix.dbg.dpproc";
/// `PMIX_DEBUG_DAEMONS_PER_NODE`.
const PER_NODE: &str = "pmix.dbg.dpnd";
/// Most daemons beside one rank, or beside all of them.
const MOST_DAEMONS: u64 = 64;
/// `PMIX_FWD_STDOUT` and `PMIX_FWD_STDERR`.
const FORWARDS: [&str; 2] = ["pmix.fwd.stdout", "pmix.fwd.stderr"];
/// `PMIX_NOTIFY_COMPLETION` and `PMIX_NOTIFY_JOB_EVENTS`.
const NOTIFIES: [&str; 2] = ["pmix.notecomp", "pmix.note.jev"];
/// What this host does not do for programs that it starts: a launcher of its own, a tool in place
/// of ranks, input of the tool.
const REFUSED: [&str; 3] = ["pmix.spwn.tool", "pmix.launch.dirs", "pmix.fwd.stdin"];

/// Where the ranks of a job are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Before their first instruction.
    pub on_exec: bool,
    /// In `PMIx_Init`.
    pub in_init: bool,
    /// Where their program says so.
    pub in_app: bool,
}

/// Beside what daemons run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// This number beside each rank.
    Rank(u32),
    /// This number beside all of them.
    Node(u32),
}

/// What a process asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SpawnRequest {
    /// Where ranks are held.
    pub stops: Stops,
    /// The namespace that daemons run beside, if it is not that of the applications of the call.
    pub target: Option<String>,
    /// Which of standard output and error the process gets.
    pub forwards: [bool; 2],
    /// Whether it gets an event at the end of the job.
    pub notifies: bool,
}

impl SpawnRequest {
    /// That of a call; a tool gets the output unless it says that it does not want it, as the
    /// library has it (`pmix_server_spawn_parser`).
    ///
    /// # Errors
    /// The status that refuses it.
    pub fn new(
        of_job: &[Attribute],
        apps: &[SpawnedApp],
        is_from_tool: bool,
    ) -> Result<Self, c_int> {
        let all = || of_job.iter().chain(apps.iter().flat_map(|it| &it.attributes));
        if all().any(|it| REFUSED.contains(&it.key.as_str()) && it.value.is_set()) {
            return Err(status::NOT_SUPPORTED);
        }
        let stops_at = |key: &str| -> Result<bool, c_int> {
            let mut is_set = false;
            for value in all().filter(|it| it.key == key).map(|it| &it.value) {
                match value {
                    Datum::Present | Datum::Number(kind::BOOL, _) => is_set |= value.is_set(),
                    // Some ranks of it.
                    _ => return Err(status::NOT_SUPPORTED),
                }
            }
            Ok(is_set)
        };
        let stops = Stops {
            on_exec: stops_at(STOP_ON_EXEC)?,
            in_init: stops_at(STOP_IN_INIT)?,
            in_app: stops_at(STOP_IN_APP)?,
        };
        let value = |key: &str| all().find(|it| it.key == key).map(|it| &it.value);
        let target = match value(TARGET).or_else(|| value(OLD_TARGET)) {
            None => None,
            Some(Datum::Proc(name)) => Some(name.nspace.clone()),
            Some(other) => Some(other.as_str().ok_or(status::BAD_PARAM)?.to_owned()),
        };
        let is_set = |key: &str| value(key).is_some_and(Datum::is_set);
        let forwards = FORWARDS.map(|key| value(key).map_or(is_from_tool, Datum::is_set));
        Ok(Self { stops, target, forwards, notifies: NOTIFIES.into_iter().any(is_set) })
    }
}

/// Whether an application, or all of the job, is daemons of a debugger.
pub fn is_daemons(of_job: &[Attribute], app: &SpawnedApp) -> bool {
    [of_job, &app.attributes].into_iter().any(|it| find(it, DAEMONS).is_some_and(Datum::is_set))
}

/// Beside what the daemons of an application run: its own number of them beside all ranks, if it
/// does not say.
///
/// # Errors
/// If the number is not valid.
pub fn beside(of_job: &[Attribute], app: &SpawnedApp) -> Result<Beside, c_int> {
    let number = |key: &str| {
        let value = find(&app.attributes, key).or_else(|| find(of_job, key));
        value.map(|it| match it.number() {
            Some(number @ 1..=MOST_DAEMONS) => u32::try_from(number).map_err(|_| status::BAD_PARAM),
            _ => Err(status::BAD_PARAM),
        })
    };
    match (number(PER_RANK).transpose()?, number(PER_NODE).transpose()?) {
        (Some(_), Some(_)) => Err(status::BAD_PARAM),
        (Some(each), None) => Ok(Beside::Rank(each)),
        (None, Some(all)) => Ok(Beside::Node(all)),
        (None, None) if u64::from(app.ranks) <= MOST_DAEMONS => Ok(Beside::Node(app.ranks.max(1))),
        (None, None) => Err(status::BAD_PARAM),
    }
}

impl Beside {
    /// The rank that each daemon is beside, of this number of ranks; none if it is beside all.
    pub fn places(self, ranks: u32) -> Vec<Option<u32>> {
        let times = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        match self {
            Self::Rank(each) => {
                (0..ranks).flat_map(|rank| std::iter::repeat_n(Some(rank), times(each))).collect()
            }
            Self::Node(all) => vec![None; times(all)],
        }
    }
}

/// The process that started a job, and what it wants to know.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The process.
    pub name: ProcName,
    /// Whether it is a tool: held ranks go on, and daemons end, when it leaves.
    pub is_tool: bool,
    /// Whether it gets an event at the end of the job.
    pub notifies: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(ranks: u32, attributes: Vec<Attribute>) -> SpawnedApp {
        SpawnedApp {
            command: c"./a".to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            ranks,
            attributes,
        }
    }

    fn flag(key: &str) -> Attribute {
        Attribute::new(key, Datum::flag(true))
    }

    #[test]
    fn what_is_asked_for_in_the_job_or_in_an_application_counts() {
        let request =
            |of_job: &[Attribute], of_app| SpawnRequest::new(of_job, &[app(1, of_app)], true);
        let got = request(&[flag(STOP_ON_EXEC)], vec![flag(STOP_IN_APP)]).unwrap();
        assert_eq!((got.stops.on_exec, got.stops.in_init, got.stops.in_app), (true, false, true));
        assert_eq!(got.forwards, [true, true]);
        let quiet = Attribute::new(FORWARDS[0], Datum::flag(false));
        assert_eq!(request(&[quiet], Vec::new()).unwrap().forwards, [false, true]);
        let old = Attribute::new(OLD_TARGET, Datum::text("monitor-7"));
        assert_eq!(request(&[], vec![old]).unwrap().target.as_deref(), Some("monitor-7"));
        let some = Attribute::new(STOP_IN_INIT, Datum::Procs(Vec::new()));
        assert_eq!(request(&[some], Vec::new()), Err(status::NOT_SUPPORTED));
        assert_eq!(request(&[flag(REFUSED[0])], Vec::new()), Err(status::NOT_SUPPORTED));
    }

    #[test]
    fn daemons_are_beside_each_rank_or_beside_all() {
        let per = |key, number| vec![Attribute::new(key, Datum::Number(kind::UINT16, number))];
        let places = |attributes| beside(&[], &app(1, attributes)).map(|it| it.places(2));
        let each = vec![Some(0), Some(0), Some(1), Some(1)];
        assert_eq!(places(per(PER_RANK, 2)), Ok(each));
        assert_eq!(places(per(PER_NODE, 3)), Ok(vec![None; 3]));
        assert_eq!(places(Vec::new()), Ok(vec![None]));
        assert_eq!(places(per(PER_NODE, 0)), Err(status::BAD_PARAM));
        let both = [per(PER_RANK, 1), per(PER_NODE, 1)].concat();
        assert_eq!(places(both), Err(status::BAD_PARAM));
    }
}
