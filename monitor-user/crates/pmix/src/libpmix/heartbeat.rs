//! Heartbeats of clients (`PMIx_Heartbeat`), which the library receives and passes to no upcall.
//!
//! In: requests to watch a client, as the library's own table of sensors gets them; windows without
//! a heartbeat, as the library raises them. Out: an upcall when more windows in a row were empty
//! than the request allows. The library itself ignores that number and the id, and sends its alert
//! to all but the watched process (`psensor_heartbeat.c`, 4.2.2 and 5.0.11); so it counts
//! heartbeats only, and its alerts come here alone. All of this is called on the thread of the
//! library.

use super::abi::KeyedValue;
use super::queue::send;
use super::values::{InfoArray, read_infos};
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::kind;
use crate::status;
use crate::upcall::{AlertRange, LostHeartbeats, Upcall};
use libloading::os::unix::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is asked for: a watch of the client itself.
pub const HEARTBEAT: &CStr = c"pmix.monitor.mbeat";
const CANCEL: &str = "pmix.monitor.cancel";
/// `PMIX_RANGE_RM`: the library delivers its alert to no client.
const TO_HOST: u8 = 1;
/// `PMIX_RANGE_NAMESPACE`: for the processes of the namespace.
const TO_NAMESPACE: u8 = 3;
/// What keys of other targets begin with.
const OF_OTHERS: &str = "pmix.monitor.tgt";
/// Type of a range (`PMIX_DATA_RANGE`).
const RANGE: u16 = 33;
/// Longest window: more seconds than this are refused, as the library adds them to the time.
const LONGEST: u64 = 86_400 * 365;

/// A client of the library (`pmix_peer_t`), which is never looked into.
type Peer = *mut c_void;
type Start =
    unsafe extern "C" fn(Peer, c_int, *const KeyedValue, *const KeyedValue, usize) -> c_int;
type Stop = unsafe extern "C" fn(Peer, *mut c_char) -> c_int;

/// `pmix_psensor_base_module_t`: what the library calls for each request of monitoring.
#[repr(C)]
struct Sensors {
    start: Option<Start>,
    stop: Option<Stop>,
}

/// The library's own functions.
static LIBRARY: Mutex<Option<(Start, Stop)>> = Mutex::new(None);
/// The clients that are watched.
static WATCHED: Mutex<Vec<Watch>> = Mutex::new(Vec::new());
/// The client whose request was carried out here, and is passed to the host next.
static ASKING: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// A client that is watched.
struct Watch {
    /// The address of its `pmix_peer_t`, valid until the library stops its sensors.
    peer: usize,
    id: Option<String>,
    window: Duration,
    drops: u32,
    code: c_int,
    range: AlertRange,
    /// Its name; none until the library passes the request to the host.
    name: Option<ProcName>,
    windows: EmptyWindows,
}

/// Windows without a heartbeat, one directly after the other.
#[derive(Debug, Default)]
struct EmptyWindows {
    count: u32,
    /// When the window that is watched now began.
    since: Option<Instant>,
}

impl EmptyWindows {
    /// A window of this length has ended without a heartbeat at this time; how many have in a row.
    /// An alert that comes later than one window after the last one was preceded by heartbeats.
    fn add(&mut self, window: Duration, now: Instant) -> u32 {
        let follows = self.since.is_some_and(|it| now.duration_since(it) < window + window / 2);
        self.count = if follows { self.count.saturating_add(1) } else { 1 };
        self.since = Some(now);
        self.count
    }
}

fn watched() -> MutexGuard<'static, Vec<Watch>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn library() -> Option<(Start, Stop)> {
    *LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts these functions in place of those of the library, before it is initialized. Whether it has
/// such a table: of versions 4 and 5 it is known.
pub fn replace_sensors(library: &Library, version: &str) -> bool {
    let number = version.trim_start_matches(|it: char| !it.is_ascii_digit());
    if !number.starts_with("4.") && !number.starts_with("5.") {
        return false;
    }
    // SAFETY: a name.
    let Ok(table) = (unsafe { library.get::<*mut Sensors>(c"pmix_psensor".to_bytes_with_nul()) })
    else {
        return false;
    };
    // SAFETY: the symbol is this structure in versions 4 and 5 (`psensor.h`), and no thread of the
    // library runs yet.
    let Some(sensors) = (unsafe { table.as_mut() }) else { return false };
    let (Some(of_start), Some(of_stop)) = (sensors.start, sensors.stop) else { return false };
    *LIBRARY.lock().unwrap_or_else(PoisonError::into_inner) = Some((of_start, of_stop));
    *sensors = Sensors { start: Some(start), stop: Some(stop) };
    true
}

/// The library passes a request of monitoring of a client to the host; whether it is done already.
pub fn is_done(name: &ProcName) -> bool {
    let asking = ASKING.swap(null_mut(), Ordering::Relaxed) as usize;
    if let Some(watch) = watched().iter_mut().find(|it| it.peer == asking) {
        watch.name = Some(name.clone());
    }
    asking != 0
}

/// # Safety
/// As the library calls it: with a client of its own, and as many attributes as it says.
unsafe extern "C" fn start(
    peer: Peer,
    code: c_int,
    what: *const KeyedValue,
    infos: *const KeyedValue,
    count: usize,
) -> c_int {
    // SAFETY: of the caller.
    let Some(asked) = unsafe { read_infos(what, 1) }.pop() else { return status::BAD_PARAM };
    // The host answers what is not refused here.
    let done = status::NOT_SUPPORTED;
    if asked.key == CANCEL {
        let id = asked.value.as_str();
        if cancel(peer, id) && id.is_some() {
            ASKING.store(peer, Ordering::Relaxed);
        }
        return done;
    }
    if asked.key.as_bytes() != HEARTBEAT.to_bytes() {
        return done;
    }
    // SAFETY: of the caller.
    let directives = unsafe { read_infos(infos, count) };
    let watch = match Watch::new(peer as usize, code, &directives) {
        Ok(watch) => watch,
        Err(status) => return status,
    };
    // The library credits a heartbeat to the first watch of a client only.
    if watched().iter().any(|it| it.peer == watch.peer) {
        return status::EXISTS;
    }
    // SAFETY: of the caller.
    let begun = unsafe { watch.begin() };
    if begun != status::SUCCESS {
        return begun;
    }
    ASKING.store(peer, Ordering::Relaxed);
    watched().push(watch);
    done
}

/// The library stops all sensors of a client that has left.
///
/// # Safety
/// As the library calls it.
unsafe extern "C" fn stop(peer: Peer, id: *mut c_char) -> c_int {
    watched().retain(|it| it.peer != peer as usize);
    // SAFETY: of the caller.
    library().map_or(status::SUCCESS, |(_, stop)| unsafe { stop(peer, id) })
}

/// Cancels the watch of a client if it has this id, or whatever its id; whether there was one.
fn cancel(peer: Peer, id: Option<&str>) -> bool {
    let is_meant =
        |it: &Watch| it.peer == peer as usize && id.is_none_or(|id| it.id.as_deref() == Some(id));
    let mut all = watched();
    let before = all.len();
    all.retain(|it| !is_meant(it));
    let is_cancelled = all.len() < before;
    if is_cancelled && let Some((_, stop)) = library() {
        // SAFETY: the library has just named the client; without an id it stops all of them.
        let _status = unsafe { stop(peer, null_mut()) };
    }
    is_cancelled
}

impl Watch {
    fn new(peer: usize, code: c_int, directives: &[Attribute]) -> Result<Self, c_int> {
        let number = |key| match find(directives, key) {
            None => Ok(None),
            Some(value) => value.number().map(Some).ok_or(status::BAD_PARAM),
        };
        let seconds = number("pmix.monitor.btime")?.filter(|it| (1..=LONGEST).contains(it));
        let drops = number("pmix.monitor.bdrop")?.unwrap_or(0);
        let id = match find(directives, "pmix.monitor.id") {
            None => None,
            Some(id) => Some(id.as_str().ok_or(status::BAD_PARAM)?.to_owned()),
        };
        // It watches the client that asks, and no other one.
        if directives.iter().any(|it| it.key.starts_with(OF_OTHERS)) {
            return Err(status::NOT_SUPPORTED);
        }
        let range = AlertRange {
            range: number("pmix.range")?
                .map_or(Ok(TO_NAMESPACE), u8::try_from)
                .map_err(|_| status::BAD_PARAM)?,
            targets: find(directives, "pmix.evrange").cloned(),
        };
        Ok(Self {
            peer,
            id,
            window: Duration::from_secs(seconds.ok_or(status::BAD_PARAM)?),
            drops: u32::try_from(drops).map_err(|_| status::BAD_PARAM)?,
            code,
            range,
            name: None,
            windows: EmptyWindows::default(),
        })
    }

    /// Starts a window; the library's status.
    ///
    /// # Safety
    /// On the thread of the library, and its client lives.
    unsafe fn begin(&self) -> c_int {
        let Some((start, _)) = library() else { return status::NOT_SUPPORTED };
        let key = HEARTBEAT.to_str().unwrap_or_default();
        let mut what = InfoArray::new(&[Attribute::new(key, Datum::flag(true))]);
        let mut how = InfoArray::new(&[
            Attribute::new(
                "pmix.monitor.btime",
                Datum::Number(kind::UINT32, self.window.as_secs()),
            ),
            Attribute::new("pmix.range", Datum::Number(RANGE, TO_HOST.into())),
        ]);
        let peer = self.peer as Peer;
        // SAFETY: of the caller; the library copies what it needs of the attributes.
        unsafe { start(peer, self.code, what.pointer(), how.pointer(), how.count()) }
    }
}

/// Counts a window without a heartbeat, and watches the next one, or says that heartbeats are
/// missing: the library itself watches again when the next heartbeat has come.
pub fn window_was_empty(name: &ProcName) {
    let mut all = watched();
    let Some(watch) = all.iter_mut().find(|it| it.name.as_ref() == Some(name)) else { return };
    let missed = watch.windows.add(watch.window, Instant::now());
    if missed > watch.drops {
        watch.windows = EmptyWindows::default();
        let (code, range) = (watch.code, watch.range.clone());
        send(Upcall::HeartbeatsMissing(LostHeartbeats { name: name.clone(), code, missed, range }));
        return;
    }
    if let Some((_, stop)) = library() {
        // SAFETY: the library stops the sensors of a client before it forgets the client, and then
        // no watch of it is here.
        let _status = unsafe { stop(watch.peer as Peer, null_mut()) };
        // SAFETY: as above.
        let _status = unsafe { watch.begin() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_in_a_row_count_and_a_later_one_begins_again() {
        let window = Duration::from_secs(2);
        let begin = Instant::now();
        let mut windows = EmptyWindows::default();
        let mut at = |seconds: u64| windows.add(window, begin + Duration::from_secs(seconds));
        assert_eq!([at(2), at(4), at(6)], [1, 2, 3]);
        // Heartbeats came in the window before.
        assert_eq!([at(10), at(12)], [1, 2]);
    }

    #[test]
    fn a_watch_needs_a_window() {
        let new = |directives: &[Attribute]| Watch::new(1, 0, directives).err();
        let seconds = |number| Datum::Number(kind::UINT32, number);
        let window = |number| Attribute::new("pmix.monitor.btime", seconds(number));
        assert_eq!(new(&[]), Some(status::BAD_PARAM));
        assert_eq!(new(&[window(0)]), Some(status::BAD_PARAM));
        assert_eq!(new(&[window(1)]), None);
        let drops = Attribute::new("pmix.monitor.bdrop", Datum::text("two"));
        assert_eq!(new(&[window(1), drops]), Some(status::BAD_PARAM));
    }
}
