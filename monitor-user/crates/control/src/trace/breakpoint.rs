//! Breakpoints of a process: a probe of the kernel or a byte (`int3`) in code from a file, a
//! breakpoint of the processor in generated code, which the program may rewrite.
//!
//! In: an address. Out: where threads trap, and which bytes to restore. A probe is the daemon's, so
//! it outlives the worker, and stops no thread without a tracer: it is used wherever the
//! instruction can be executed again after its registers were set back (`machine/restartable`). So
//! is a breakpoint of the processor; if the daemon can set none, it is a debug register of each
//! thread. A byte is written without stopping any thread; the kernel gives the process its own copy
//! of the page.

use super::insn_boundary::{InsnBoundary, insn_boundary};
use crate::machine::{DebugSlots, SLOTS, restartable};
use crate::process_ref::ProcessRef;
use crate::{
    AgentExpression, BreakpointMeans, BreakpointProbe, ControlError, Patch, ProbeLocation,
    ProbeUse, RequestTag, ToolId, memory, uprobe_patches,
};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

/// `int3`.
pub const INT3: u8 = 0xcc;
/// The last debug register is reserved for thread plans.
const BREAKPOINT_SLOTS: usize = SLOTS - 1;

/// A breakpoint.
#[derive(Debug)]
pub struct Breakpoint {
    /// Its address.
    pub address: u64,
    /// How it stops threads.
    pub means: BreakpointMeans,
    /// The tools that set it.
    pub owners: Vec<BreakpointOwner>,
}

/// A tool that has set a breakpoint.
#[derive(Clone, Debug)]
pub struct BreakpointOwner {
    /// The tool, with its tag.
    pub requester: (ToolId, RequestTag),
    /// Threads stop for it if one of these holds, or if there are none.
    pub conditions: Vec<AgentExpression>,
}

impl<'a> BreakpointSite<'a> {
    /// This address.
    pub const fn new(address: u64, probes: &'a [ProbeLocation], probe_use: ProbeUse) -> Self {
        Self { address, probes, probe_use }
    }
}

impl Breakpoint {
    /// Its byte, if it has one.
    pub const fn byte(&self) -> Option<Patch> {
        match self.means {
            BreakpointMeans::Byte(patch) => Some(patch),
            _ => None,
        }
    }

    /// Whether a probe stops threads at it.
    pub const fn is_probe(&self) -> bool {
        matches!(self.means, BreakpointMeans::Probe(_))
    }

    /// Whether the daemon's signal stops threads at it.
    pub const fn is_of_daemon(&self) -> bool {
        matches!(self.means, BreakpointMeans::Probe(_) | BreakpointMeans::Hardware)
    }

    const fn is_in_debug_register(&self) -> bool {
        matches!(self.means, BreakpointMeans::DebugRegister)
    }
}

/// Where to set a breakpoint, or where a thread is to continue.
pub struct BreakpointSite<'a> {
    /// The address.
    pub address: u64,
    /// Kernel probes, whose bytes do not belong to the program.
    pub probes: &'a [ProbeLocation],
    /// Whether it may be a probe.
    pub probe_use: ProbeUse,
}

/// Bytes of the longest instruction.
const MAX_INSTRUCTION: u64 = 15;

/// All breakpoints of a process.
#[derive(Debug, Default)]
pub struct Breakpoints {
    pub all: Vec<Breakpoint>,
    /// Addresses of removed bytes: a thread may have hit one just before.
    removed_bytes: Vec<u64>,
}

impl Breakpoints {
    /// The breakpoint at an address.
    pub fn at(&self, address: u64) -> Option<&Breakpoint> {
        self.all.iter().find(|it| it.address == address)
    }

    /// Whether a trap after this address can come from a byte of ours.
    pub fn had_byte(&self, address: u64) -> bool {
        self.removed_bytes.contains(&address)
            || self.at(address).is_some_and(|it| it.byte().is_some())
    }

    /// All bytes in place.
    pub fn patches(&self) -> Vec<Patch> {
        self.all.iter().filter_map(Breakpoint::byte).collect()
    }

    /// Changes the original bytes; what is written at a breakpoint appears when it is removed.
    pub fn overwrite(&mut self, address: u64, bytes: &[u8]) {
        for it in &mut self.all {
            let place = it.address.checked_sub(address).and_then(|it| usize::try_from(it).ok());
            if let (BreakpointMeans::Byte(patch), Some(byte)) =
                (&mut it.means, place.and_then(|place| bytes.get(place)))
            {
                patch.original = *byte;
            }
        }
    }

    /// The debug registers of a thread; the address of its plan is in the last one.
    pub fn slots(&self, plan: Option<u64>) -> DebugSlots {
        let mut slots = DebugSlots::default();
        let own = self.all.iter().filter(|it| it.is_in_debug_register()).map(|it| it.address);
        for (slot, address) in slots.iter_mut().zip(own.take(BREAKPOINT_SLOTS)) {
            *slot = Some(address);
        }
        slots[BREAKPOINT_SLOTS] = plan;
        slots
    }

    /// Sets a breakpoint; returns how.
    pub fn set(
        &mut self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
        owner: BreakpointOwner,
    ) -> Result<BreakpointMeans, ControlError> {
        let address = site.address;
        match self.all.iter_mut().find(|it| it.address == address) {
            Some(known) if known.is_of_daemon() && site.probe_use == ProbeUse::Refused => {
                let why =
                    "the kernel has a probe of another request there, and sets no further one";
                Err(ControlError::Exhausted(why.into()))
            }
            Some(known) => {
                known.owners.push(owner);
                Ok(known.means.clone())
            }
            None => {
                let means = self.install(process, site)?;
                let owners = vec![owner];
                self.all.push(Breakpoint { address, means: means.clone(), owners });
                Ok(means)
            }
        }
    }

    fn install(
        &self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
    ) -> Result<BreakpointMeans, ControlError> {
        let address = site.address;
        if self.check_code(process, site)? == InsnBoundary::Unknown {
            if site.probe_use == ProbeUse::Allowed {
                return Ok(BreakpointMeans::Hardware);
            }
            let taken = self.all.iter().filter(|it| it.is_in_debug_register()).count();
            if taken >= BREAKPOINT_SLOTS {
                let why = "all debug registers for breakpoints in generated code are in use";
                return Err(ControlError::Exhausted(why.into()));
            }
            return Ok(BreakpointMeans::DebugRegister);
        }
        if site.probe_use == ProbeUse::Allowed
            && let Some(probe) = self.probe(process, site)?
        {
            return Ok(BreakpointMeans::Probe(probe));
        }
        let original = memory::read(process, address, 1)?[0];
        memory::write(process, address, &[INT3])?;
        Ok(BreakpointMeans::Byte(Patch { address, original }))
    }

    /// The probe that may stop threads at an instruction: the kernel executes what is in the file,
    /// so memory must have the same.
    fn probe(
        &self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
    ) -> Result<Option<BreakpointProbe>, ControlError> {
        let map = code_at(process, site.address)?;
        if map.perms.contains(MMPermissions::SHARED) {
            return Ok(None);
        }
        let length = MAX_INSTRUCTION.min(map.address.1 - site.address);
        let mut code = memory::read(process, site.address, length)?;
        self.unpatch(process, site, site.address, &mut code)?;
        let found = uprobe_patches::file_with(process, &map, (site.address, &code));
        let changes = restartable(&code, site.address);
        let probe = |((file, offset), changes)| BreakpointProbe { file, offset, changes };
        Ok(found.zip(changes).map(probe))
    }

    /// Refuses an address that is not code, or inside an instruction; returns whether an
    /// instruction is known to begin there.
    pub fn check_code(
        &self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
    ) -> Result<InsnBoundary, ControlError> {
        let address = site.address;
        if !is_of_file(&code_at(process, address)?) {
            return Ok(InsnBoundary::Unknown);
        }
        let unpatch = |from, bytes: &mut [u8]| self.unpatch(process, site, from, bytes);
        match insn_boundary(process, address, &unpatch)? {
            InsnBoundary::Inside => {
                Err(ControlError::Unsafe(format!("no instruction begins at {address:#x}")))
            }
            known => Ok(known),
        }
    }

    /// Restores the original bytes in code that was read, at breakpoints and kernel probes.
    fn unpatch(
        &self,
        process: &ProcessRef,
        site: &BreakpointSite<'_>,
        from: u64,
        bytes: &mut [u8],
    ) -> Result<(), ControlError> {
        let range = from..from + bytes.len() as u64;
        memory::unpatch(from, bytes, &self.patches());
        memory::unpatch(from, bytes, &uprobe_patches::patches(process, site.probes, &range)?);
        Ok(())
    }

    /// Removes matching owners, and breakpoints without owner; returns how many were removed.
    pub fn unset(
        &mut self,
        process: &ProcessRef,
        matches: impl Fn(&(ToolId, RequestTag)) -> bool,
    ) -> Result<usize, ControlError> {
        for it in &mut self.all {
            it.owners.retain(|owner| !matches(&owner.requester));
        }
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all).into_iter().partition(|it| it.owners.is_empty());
        self.all = left;
        for it in &gone {
            self.removed_bytes.extend(it.byte().map(|_| it.address));
            restore_byte(process, it)?;
        }
        Ok(gone.len())
    }

    /// Removes the byte for the single step of a thread at the breakpoint.
    pub fn remove_byte(&self, process: &ProcessRef, address: u64) -> Result<(), ControlError> {
        self.at(address).map_or(Ok(()), |it| restore_byte(process, it))
    }

    /// Inserts the byte again after the step.
    pub fn insert_byte(&self, process: &ProcessRef, address: u64) -> Result<(), ControlError> {
        match self.at(address) {
            Some(it) if it.byte().is_some() => memory::write(process, address, &[INT3]),
            _ => Ok(()), // It was removed meanwhile.
        }
    }

    /// Removes all bytes from the memory copy of a forked child, which is not traced.
    pub fn clean_copy(&self, child: &ProcessRef) -> Result<(), ControlError> {
        self.all.iter().try_for_each(|it| restore_byte(child, it))
    }

    /// Forgets all breakpoints, after an exec; returns their owners.
    pub fn clear(&mut self) -> Vec<(ToolId, RequestTag)> {
        self.removed_bytes.clear();
        std::mem::take(&mut self.all)
            .into_iter()
            .flat_map(|it| it.owners)
            .map(|it| it.requester)
            .collect()
    }
}

/// Restores the original byte, unless the program has overwritten ours.
fn restore_byte(process: &ProcessRef, it: &Breakpoint) -> Result<(), ControlError> {
    it.byte().map_or(Ok(()), |patch| restore(process, &patch))
}

/// Restores a byte that another user worker has left.
pub fn restore(process: &ProcessRef, patch: &Patch) -> Result<(), ControlError> {
    match memory::read(process, patch.address, 1) {
        Ok(now) if now == [INT3] => memory::write(process, patch.address, &[patch.original]),
        Ok(_) | Err(ControlError::Fault { .. }) => Ok(()), // The code was unmapped or replaced.
        Err(other) => Err(other),
    }
}

/// The executable mapping at an address.
fn code_at(process: &ProcessRef, address: u64) -> Result<MemoryMap, ControlError> {
    let maps = process.maps()?;
    let mut maps = maps.into_iter();
    let it = maps.find(|map| (map.address.0..map.address.1).contains(&address));
    match it {
        Some(map) if map.perms.contains(MMPermissions::EXECUTE) => Ok(map),
        Some(_) => Err(ControlError::Unsafe(format!("{address:#x} is data, not code"))),
        None => Err(ControlError::Fault { address, done: Vec::new() }),
    }
}

fn is_of_file(map: &MemoryMap) -> bool {
    matches!(map.pathname, MMapPath::Path(_)) && map.inode != 0
}
