//! Process sets of rule programs: rows of a kernel table, a bit for each set.
//!
//! The kernel adds children and removes processes that end. A process may end while it is added, so
//! its pidfd is checked again afterwards. Programs cache memberships; each removal is counted,
//! which invalidates the cache.

use super::{encode::unsupported, map};
use crate::object::{Object, Record};
use aya::maps::{HashMap as Table, MapData};
use monitor_backend::{Error, rule::insn::ProcessSetId};
use monitor_ebpf::abi::rule::{BY_USER_SPACE, DEPARTURES, MEMBERS, SetMembership};
use monitor_model::{ErrnoPlace, Pid};
use monitor_sys::{namespace::has_host_pids, pidfd::PidFd};

type Members<'a> = Table<&'a mut MapData, u32, Record<SetMembership>>;

/// The bit of a set.
pub const fn bit(set: ProcessSetId) -> u64 {
    1 << (set.0 - 1)
}

/// Adds a process to a set.
pub fn include(object: &mut Object, set: ProcessSetId, process: Pid) -> Result<(), Error> {
    let pidfd = PidFd::open(process).ok();
    if pidfd.is_none() && has_host_pids() {
        return Ok(()); // It has ended.
    }
    let mut members = members(object)?;
    let known = members.get(&process.0, 0).map_or_else(|_| SetMembership::default(), |it| it.0);
    let member = SetMembership { sets: known.sets | bit(set), start_ns: 0, ..known };
    if members.insert(process.0, Record(member), 0).is_err() {
        let why = "the table of processes is full".to_owned();
        return Err(unsupported(why, "watch fewer processes"));
    }
    if pidfd.is_some_and(|pidfd| pidfd.has_ended()) {
        let _ = members.remove(&process.0);
        count_departure(object);
    }
    Ok(())
}

/// Sets where a process has `errno`; no effect if it is in no set.
pub fn set_errno_place(object: &mut Object, process: Pid, place: Option<ErrnoPlace>) {
    let Ok(mut members) = members(object) else { return };
    let Ok(Record(member)) = members.get(&process.0, 0) else { return };
    let (errno_word, errno_offset) = match place {
        Some(ErrnoPlace::Word(address)) => (address, 0),
        Some(ErrnoPlace::Offset(offset)) => (0, offset),
        None => (0, 0),
    };
    if (member.errno_word, member.errno_offset) != (errno_word, errno_offset) {
        // `BPF_EXIST`: it may have ended and been removed by the kernel in the meantime.
        let member = SetMembership { errno_word, errno_offset, ..member };
        let _ = members.insert(process.0, Record(member), 2);
    }
}

/// The sets that a process belongs to, as bits.
pub fn sets_of(object: &mut Object, process: Pid) -> u64 {
    let members = members(object);
    members.ok().and_then(|it| it.get(&process.0, 0).ok()).map_or(0, |Record(it)| it.sets)
}

/// The processes of a set, also those that the kernel has added.
pub fn members_of(object: &mut Object, set: ProcessSetId) -> Vec<Pid> {
    let Ok(members) = members(object) else { return Vec::new() };
    let rows = members.iter().flatten();
    rows.filter(|(_, Record(it))| it.sets & bit(set) != 0).map(|(pid, _)| Pid(pid)).collect()
}

/// Removes a process from a set; no effect if it is not a member.
pub fn exclude(object: &mut Object, set: ProcessSetId, process: Pid) {
    if let Ok(mut members) = members(object) {
        change(&mut members, process.0, !bit(set));
        count_departure(object);
    }
}

/// Removes all processes from a set.
pub fn clear(object: &mut Object, set: ProcessSetId) {
    let Ok(mut members) = members(object) else { return };
    let processes: Vec<u32> = members.keys().flatten().collect();
    for process in processes {
        change(&mut members, process, !bit(set));
    }
    count_departure(object);
}

/// Invalidates the memberships that programs have cached.
fn count_departure(object: &mut Object) {
    let before: u64 = map::get(object, DEPARTURES, BY_USER_SPACE).unwrap_or(0);
    // Writing an existing element of an array cannot fail.
    let _ = map::set(object, DEPARTURES, BY_USER_SPACE, &(before + 1));
}

fn change(members: &mut Members<'_>, process: u32, keep: u64) {
    let Ok(Record(member)) = members.get(&process, 0) else { return };
    // It may have ended and been removed by the kernel in the meantime.
    let _ = match member.sets & keep {
        0 => members.remove(&process),
        // `BPF_EXIST`: not inserted again if it has just been removed.
        sets => members.insert(process, Record(SetMembership { sets, ..member }), 2),
    };
}

fn members(object: &mut Object) -> Result<Members<'_>, Error> {
    let error = object.no_map(MEMBERS);
    object.ebpf.map_mut(MEMBERS).and_then(|map| Table::try_from(map).ok()).ok_or(error)
}
