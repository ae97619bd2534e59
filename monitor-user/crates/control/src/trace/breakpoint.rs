//! Breakpoints of a process: a byte of ours in code that comes from a file, a debug register of
//! each thread in code that the program made itself and may make anew.
//!
//! In: an address. Out: where threads trap, and what must be put back. A byte is written without
//! stopping anybody; the kernel gives the process its own copy of the page.

use super::super::act::{Mark, Patch, Site, Tool};
use super::super::machine::{SLOTS, Slots};
use super::super::memory;
use super::super::site;
use super::super::subject::{Subject, tell};
use super::super::trouble::Trouble;
use super::boundary::{Boundary, boundary};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};

/// `int3`.
pub const TRAP: u8 = 0xcc;
/// The last debug register is for errands.
const FOR_BREAKPOINTS: usize = SLOTS - 1;

/// A breakpoint.
#[derive(Debug)]
pub struct Breakpoint {
    /// Where.
    pub address: u64,
    /// The byte that ours stands for; none if debug registers do it.
    pub original: Option<u8>,
    /// Who wants it, under which name.
    pub wanted: Vec<(Tool, Mark)>,
}

/// Where one is wanted.
pub struct Place<'a> {
    /// The address.
    pub address: u64,
    /// Kernel probes, whose bytes are no part of the program.
    pub sites: &'a [Site],
}

/// All of a process.
#[derive(Debug, Default)]
pub struct Breakpoints {
    pub all: Vec<Breakpoint>,
    /// Bytes that were taken out: a thread may have come to one just before.
    ghosts: Vec<u64>,
}

impl Breakpoints {
    /// The one at an address.
    pub fn at(&self, address: u64) -> Option<&Breakpoint> {
        self.all.iter().find(|it| it.address == address)
    }

    /// Whether a trap behind this address was made by a byte of ours.
    pub fn had_byte(&self, address: u64) -> bool {
        self.ghosts.contains(&address) || self.at(address).is_some_and(|it| it.original.is_some())
    }

    /// The bytes of ours.
    pub fn patches(&self) -> Vec<Patch> {
        let patch =
            |it: &Breakpoint| it.original.map(|original| Patch { address: it.address, original });
        self.all.iter().filter_map(patch).collect()
    }

    /// What the program writes over a byte of ours comes there when ours goes.
    pub fn overwrite(&mut self, address: u64, bytes: &[u8]) {
        for it in &mut self.all {
            let place = it.address.checked_sub(address).and_then(|it| usize::try_from(it).ok());
            if let (Some(original), Some(byte)) =
                (&mut it.original, place.and_then(|place| bytes.get(place)))
            {
                *original = *byte;
            }
        }
    }

    /// Where each thread traps by debug registers; the errand's address comes last.
    pub fn slots(&self, errand: Option<u64>) -> Slots {
        let mut slots = Slots::default();
        let own = self.all.iter().filter(|it| it.original.is_none()).map(|it| it.address);
        for (slot, address) in slots.iter_mut().zip(own.take(FOR_BREAKPOINTS)) {
            *slot = Some(address);
        }
        slots[FOR_BREAKPOINTS] = errand;
        slots
    }

    /// Adds one.
    pub fn set(
        &mut self,
        subject: &Subject,
        place: &Place<'_>,
        who: (Tool, Mark),
    ) -> Result<Option<Patch>, Trouble> {
        let address = place.address;
        let original = match self.all.iter_mut().find(|it| it.address == address) {
            Some(known) => {
                known.wanted.push(who);
                known.original
            }
            None => {
                let original = self.place(subject, place)?;
                self.all.push(Breakpoint { address, original, wanted: vec![who] });
                original
            }
        };
        Ok(original.map(|original| Patch { address, original }))
    }

    fn place(&self, subject: &Subject, place: &Place<'_>) -> Result<Option<u8>, Trouble> {
        let address = place.address;
        let begins = match is_of_file(&code_at(subject, address)?) {
            true => {
                boundary(subject, address, &|from, bytes| self.own(subject, place, from, bytes))?
            }
            false => Boundary::Unknown,
        };
        if begins == Boundary::Within {
            return Err(Trouble::Unsafe(format!("no instruction begins at {address:#x}")));
        }
        if begins == Boundary::Unknown {
            let taken = self.all.iter().filter(|it| it.original.is_none()).count();
            if taken >= FOR_BREAKPOINTS {
                let why = "the debug registers for code that the program made are all in use";
                return Err(Trouble::Exhausted(why.into()));
            }
            return Ok(None);
        }
        let byte = memory::read(subject, address, 1)?[0];
        memory::write(subject, address, &[TRAP])?;
        Ok(Some(byte))
    }

    /// Takes our bytes and those of the kernel's probes out of code.
    fn own(
        &self,
        subject: &Subject,
        place: &Place<'_>,
        from: u64,
        bytes: &mut [u8],
    ) -> Result<(), Trouble> {
        let range = from..from + bytes.len() as u64;
        memory::unpatched(from, bytes, &self.patches());
        memory::unpatched(from, bytes, &site::patches(subject, place.sites, &range)?);
        Ok(())
    }

    /// Takes away those that this was wanted by alone; gives how many are gone.
    pub fn unset(
        &mut self,
        subject: &Subject,
        whose: impl Fn(&(Tool, Mark)) -> bool,
    ) -> Result<usize, Trouble> {
        for it in &mut self.all {
            it.wanted.retain(|who| !whose(who));
        }
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all).into_iter().partition(|it| it.wanted.is_empty());
        self.all = left;
        for it in &gone {
            self.ghosts.extend(it.original.map(|_| it.address));
            put_back(subject, it)?;
        }
        Ok(gone.len())
    }

    /// Without the byte, for the one step of a thread that stands on it.
    pub fn lift(&self, subject: &Subject, address: u64) -> Result<(), Trouble> {
        self.at(address).map_or(Ok(()), |it| put_back(subject, it))
    }

    /// The byte again, after the step.
    pub fn lower(&self, subject: &Subject, address: u64) -> Result<(), Trouble> {
        match self.at(address) {
            Some(Breakpoint { original: Some(_), .. }) => memory::write(subject, address, &[TRAP]),
            _ => Ok(()), // It was taken away meanwhile.
        }
    }

    /// A child has a copy of the memory, and nobody who traces it.
    pub fn clean_copy(&self, child: &Subject) -> Result<(), Trouble> {
        self.all.iter().try_for_each(|it| put_back(child, it))
    }

    /// The process has another program now.
    pub fn lose(&mut self) -> Vec<(Tool, Mark)> {
        self.ghosts.clear();
        std::mem::take(&mut self.all).into_iter().flat_map(|it| it.wanted).collect()
    }
}

/// Puts the program's own byte back, unless the program has put another over ours.
fn put_back(subject: &Subject, it: &Breakpoint) -> Result<(), Trouble> {
    let Some(original) = it.original else { return Ok(()) };
    restore(subject, &Patch { address: it.address, original })
}

/// The same for a byte that another hand has left.
pub fn restore(subject: &Subject, patch: &Patch) -> Result<(), Trouble> {
    match memory::read(subject, patch.address, 1) {
        Ok(now) if now == [TRAP] => memory::write(subject, patch.address, &[patch.original]),
        Ok(_) | Err(Trouble::Fault { .. }) => Ok(()), // The code was unmapped or replaced.
        Err(other) => Err(other),
    }
}

/// The mapping of code at an address.
pub fn code_at(subject: &Subject, address: u64) -> Result<MemoryMap, Trouble> {
    let maps = tell("reading its memory map", subject.proc()?.maps())?;
    let mut maps = maps.into_iter();
    let it = maps.find(|map| (map.address.0..map.address.1).contains(&address));
    match it {
        Some(map) if map.perms.contains(MMPermissions::EXECUTE) => Ok(map),
        Some(_) => Err(Trouble::Unsafe(format!("there is data at {address:#x}, no instruction"))),
        None => Err(Trouble::Fault { address, done: Vec::new() }),
    }
}

fn is_of_file(map: &MemoryMap) -> bool {
    matches!(map.pathname, MMapPath::Path(_)) && map.inode != 0
}
