//! The integer registers of x86-64.
//!
//! Numbers are those of the System V psABI, figure 3.36 (DWARF register number mapping): 0 rax,
//! 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8 to 15 r8 to r15, 16 the instruction pointer,
//! 49 the flags, 50 to 55 the segments, 58 and 59 the bases of fs and gs.

use super::super::act::Spot;
use super::super::trouble::Trouble;
use monitor_sys::trace;
use zerocopy::IntoBytes as _;

/// `struct user_regs_struct` of sys/user.h: 27 words.
const WORDS: usize = 27;
const ORIG_RAX: usize = 15;
const RAX: usize = 10;
const RIP: usize = 16;
const RSP: usize = 19;
const RBP: usize = 4;
const RDI: usize = 14;

/// The word of each number.
const PLACES: &[(u16, usize)] = &[
    (0, RAX),
    (1, 12),
    (2, 11),
    (3, 5),
    (4, 13),
    (5, RDI),
    (6, RBP),
    (7, RSP),
    (8, 9),
    (9, 8),
    (10, 7),
    (11, 6),
    (12, 3),
    (13, 2),
    (14, 1),
    (15, 0),
    (16, RIP),
    (49, 18),
    (50, 24),
    (51, 17),
    (52, 20),
    (53, 23),
    (54, 25),
    (55, 26),
    (58, 21),
    (59, 22),
];

/// The integer registers of a stopped thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers([u64; WORDS]);

impl Registers {
    /// As they are.
    pub fn of(tid: i32) -> Result<Self, Trouble> {
        let mut words = [0_u64; WORDS];
        let read = trace::read_set(tid, trace::INTEGERS, words.as_mut_bytes());
        match read.map_err(|error| Trouble::of("reading registers", &error))? {
            bytes if bytes == size_of_val(&words) => Ok(Self(words)),
            _ => Err(Trouble::Unsupported("the process runs 32-bit instructions".into())),
        }
    }

    /// Sets them.
    pub fn set(&self, tid: i32) -> Result<(), Trouble> {
        let set = trace::write_set(tid, trace::INTEGERS, self.0.as_bytes());
        set.map_err(|error| Trouble::of("writing registers", &error))
    }

    /// The one with this number.
    pub fn get(&self, number: u16) -> Result<u64, Trouble> {
        place(number).map(|place| self.0[place])
    }

    /// Changes the one with this number.
    pub fn put(&mut self, number: u16, value: u64) -> Result<(), Trouble> {
        let place = place(number)?;
        self.0[place] = value;
        // Within a system call that was interrupted, rax is what makes the kernel begin it anew,
        // and so is the place of the instruction: without this it would be done at the new place.
        if matches!(place, RAX | RIP) {
            self.0[ORIG_RAX] = u64::MAX;
        }
        Ok(())
    }

    /// Where the thread is.
    pub fn pc(&self) -> u64 {
        self.0[RIP]
    }

    /// Lets it go on elsewhere.
    pub fn set_pc(&mut self, pc: u64) {
        self.0[RIP] = pc;
        self.0[ORIG_RAX] = u64::MAX;
    }

    /// Puts it back onto an instruction that our byte stood in front of.
    pub fn back_to(&mut self, pc: u64) {
        self.0[RIP] = pc;
    }

    /// As if it stood here.
    pub fn stand_at(&mut self, spot: Spot) {
        (self.0[RIP], self.0[RSP]) = (spot.pc, spot.sp);
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.0[RSP]
    }

    /// The frame pointer, if the program uses it as one.
    pub fn fp(&self) -> u64 {
        self.0[RBP]
    }

    /// What a procedure returned, as an integer.
    pub fn returned(&self) -> u64 {
        self.0[RAX]
    }

    /// Ready to begin a procedure: see `call`.
    pub(super) fn begin(&mut self, pc: u64, sp: u64, integers: &[u64], floats: u64) {
        const ARGUMENTS: [usize; 6] = [RDI, 13, 12, 11, 9, 8];
        self.set_pc(pc);
        self.0[RSP] = sp;
        for (place, value) in ARGUMENTS.iter().zip(integers) {
            self.0[*place] = *value;
        }
        self.0[RAX] = floats;
        // The direction flag is clear where a procedure begins.
        self.0[18] &= !(1 << 10);
    }
}

fn place(number: u16) -> Result<usize, Trouble> {
    let row = PLACES.iter().find(|(own, _)| *own == number);
    row.map(|(_, place)| *place).ok_or_else(|| {
        let which = "0 to 16, 49 to 55, 58 and 59";
        Trouble::Range(format!("{number} is no integer register; they are {which}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_one_word() {
        let mut places: Vec<usize> = PLACES.iter().map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), PLACES.len());
        assert!(!places.contains(&ORIG_RAX));
    }

    #[test]
    fn only_what_restarts_a_system_call_makes_the_kernel_forget_it() {
        let mut registers = Registers([7; WORDS]);
        registers.put(3, 1).unwrap();
        assert_eq!(registers.0[ORIG_RAX], 7);
        registers.put(16, 0x1000).unwrap();
        assert_eq!((registers.pc(), registers.0[ORIG_RAX]), (0x1000, u64::MAX));
        assert!(registers.put(17, 0).is_err() && registers.get(48).is_err());
    }
}
