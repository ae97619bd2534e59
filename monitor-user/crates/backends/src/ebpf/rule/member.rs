//! Who is in which set: rows of the kernel's table, a bit for each set.
//!
//! The kernel adds children and takes out who ends. Between the two a process may end while it is
//! being put in; so it is looked at once more afterwards, by a descriptor that means it alone.
//! Programs remember whom they found; that somebody was taken out is told behind it.

use super::code::unsupported;
use super::map;
use crate::ebpf::object::{Object, Record};
use aya::maps::{HashMap as Table, MapData};
use monitor_backend::Error;
use monitor_backend::rule::act::Set;
use monitor_ebpf::abi::rule::{BY_USER, LEFT, MEMBERS, Member};
use monitor_model::id::Pid;
use monitor_sys::namespace::has_host_pids;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid as RawPid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

type Members<'a> = Table<&'a mut MapData, u32, Record<Member>>;

/// The bit of a set.
pub const fn bit(set: Set) -> u64 {
    1 << (set.0 - 1)
}

/// Puts a process into a set.
pub fn include(object: &mut Object, set: Set, process: Pid) -> Result<(), Error> {
    let held = hold(process);
    if held.is_none() && has_host_pids() {
        return Ok(()); // It has ended.
    }
    let mut members = members(object)?;
    let sets = members.get(&process.0, 0).map_or(0, |Record(member)| member.sets) | bit(set);
    if members.insert(process.0, Record(Member { sets }), 0).is_err() {
        let why = "its table of processes is full".to_owned();
        return Err(unsupported(why, "watch fewer processes"));
    }
    if held.is_some_and(|held| has_ended(&held)) {
        let _ = members.remove(&process.0);
        has_left(object);
    }
    Ok(())
}

/// Takes a process out of a set; one that is not in it stays as it is.
pub fn exclude(object: &mut Object, set: Set, process: Pid) {
    if let Ok(mut members) = members(object) {
        change(&mut members, process.0, !bit(set));
        has_left(object);
    }
}

/// Takes everybody out of a set.
pub fn clear(object: &mut Object, set: Set) {
    let Ok(mut members) = members(object) else { return };
    let processes: Vec<u32> = members.keys().flatten().collect();
    for process in processes {
        change(&mut members, process, !bit(set));
    }
    has_left(object);
}

/// What programs have noted is not believed from here on.
fn has_left(object: &mut Object) {
    let before: u64 = map::get(object, LEFT, BY_USER).unwrap_or(0);
    // An array refuses no element that it has.
    let _ = map::set(object, LEFT, BY_USER, &(before + 1));
}

fn change(members: &mut Members<'_>, process: u32, keep: u64) {
    let Ok(Record(member)) = members.get(&process, 0) else { return };
    // In both cases it may have ended meanwhile, and the kernel have taken it out.
    let _ = match member.sets & keep {
        0 => members.remove(&process),
        // `BPF_EXIST`: not put back, if it has just been taken out.
        sets => members.insert(process, Record(Member { sets }), 2),
    };
}

fn members(object: &mut Object) -> Result<Members<'_>, Error> {
    let error = object.no_map(MEMBERS);
    object.ebpf.map_mut(MEMBERS).and_then(|map| Table::try_from(map).ok()).ok_or(error)
}

fn hold(process: Pid) -> Option<OwnedFd> {
    let raw = i32::try_from(process.0).ok().and_then(RawPid::from_raw)?;
    pidfd_open(raw, PidfdFlags::empty()).ok()
}

fn has_ended(held: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(held, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())) == Ok(1)
}
