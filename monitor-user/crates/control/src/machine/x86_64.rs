//! The integer registers of x86-64.
//!
//! Numbers are those of the System V psABI, figure 3.36 (DWARF register number mapping): 0 rax,
//! 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8 to 15 r8 to r15, 16 the instruction pointer,
//! 49 the flags, 50 to 55 the segments, 58 and 59 the bases of fs and gs.

use crate::{CodePos, ControlError};
use monitor_sys::ptrace;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// `struct user_regs_struct` of sys/user.h: 27 words.
const WORDS: usize = 27;
const ORIG_RAX: usize = 15;
const RAX: usize = 10;
const RIP: usize = 16;
const RSP: usize = 19;
const RBP: usize = 4;
const RDI: usize = 14;

/// Results of interrupted system calls, `ERESTART...` of include/linux/errno.h. One with a timeout
/// (-516) begins again with all of it.
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
/// Length of the instruction `syscall`.
const SYSCALL_BYTES: u64 = 2;

/// Index in `user_regs_struct` of each DWARF number.
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
    (Registers::PC, RIP),
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; WORDS]);

impl Registers {
    /// The DWARF number of the program counter.
    pub const PC: u16 = 16;

    /// Reads them from a stopped thread.
    pub fn read(tid: i32) -> Result<Self, ControlError> {
        let mut words = [0_u64; WORDS];
        let read = ptrace::read_regset(tid, ptrace::GENERAL_REGSET, words.as_mut_bytes());
        match read.map_err(|error| ControlError::from_io("reading registers", &error))? {
            bytes if bytes == size_of_val(&words) => Ok(Self(words)),
            _ => Err(ControlError::Unsupported("the process runs 32-bit instructions".into())),
        }
    }

    /// Writes them to a stopped thread.
    pub fn write(&self, tid: i32) -> Result<(), ControlError> {
        let set = ptrace::write_regset(tid, ptrace::GENERAL_REGSET, self.0.as_bytes());
        set.map_err(|error| ControlError::from_io("writing registers", &error))
    }

    /// All of them, as `struct user_regs_struct` has them.
    pub fn to_bytes(self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    /// Of such bytes, the number of the system call included: whether an interrupted call is
    /// restarted is for the writer to decide.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ControlError> {
        let words = <[u64; WORDS]>::read_from_bytes(bytes).map_err(|_| {
            let (length, size) = (bytes.len(), WORDS * 8);
            ControlError::InvalidArgument(format!("{length} bytes: the registers have {size}"))
        })?;
        Ok(Self(words))
    }

    /// The register with this DWARF number.
    pub fn get(&self, number: u16) -> Result<u64, ControlError> {
        register_index(number).map(|place| self.0[place])
    }

    /// Sets the register with this DWARF number.
    pub fn put(&mut self, number: u16, value: u64) -> Result<(), ControlError> {
        let place = register_index(number)?;
        self.0[place] = value;
        // In an interrupted system call the kernel restarts it depending on rax and orig_rax;
        // without this the restart would modify the new values.
        if matches!(place, RAX | RIP) {
            self.0[ORIG_RAX] = u64::MAX;
        }
        Ok(())
    }

    /// Sets registers back to what a kernel probe has read, by their index in `struct pt_regs`.
    pub fn set_back(&mut self, probed: &[(u8, u64)]) {
        for (index, value) in probed {
            if let Some(word) = self.0.get_mut(usize::from(*index)) {
                *word = *value;
            }
        }
        self.0[ORIG_RAX] = u64::MAX;
    }

    /// A word by its index in `struct user_regs_struct`.
    pub fn word(&self, index: u8) -> Option<u64> {
        self.0.get(usize::from(index)).copied()
    }

    /// The program counter.
    pub fn pc(&self) -> u64 {
        self.0[RIP]
    }

    /// Sets the program counter and cancels the restart of a system call.
    pub fn set_pc(&mut self, pc: u64) {
        self.0[RIP] = pc;
        self.0[ORIG_RAX] = u64::MAX;
    }

    /// Sets the program counter back to the instruction under a breakpoint byte.
    pub fn rewind_to(&mut self, pc: u64) {
        self.0[RIP] = pc;
    }

    /// Sets program counter and stack pointer.
    pub fn set_position(&mut self, pos: CodePos) {
        (self.0[RIP], self.0[RSP]) = (pos.pc, pos.sp);
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.0[RSP]
    }

    /// The frame pointer, if the program uses rbp as such.
    pub fn fp(&self) -> u64 {
        self.0[RBP]
    }

    /// The integer return value of a procedure.
    pub fn returned(&self) -> u64 {
        self.0[RAX]
    }

    /// The number of the system call that the thread makes.
    pub fn system_call(&self) -> u64 {
        self.0[ORIG_RAX]
    }

    /// As the kernel resumes the thread: an interrupted system call is made again.
    pub(super) fn with_restart(mut self) -> Self {
        let is_restarted = RESTARTS.contains(&self.0[RAX].cast_signed());
        if self.0[ORIG_RAX].cast_signed() >= 0 && is_restarted {
            self.0[RAX] = self.0[ORIG_RAX];
            self.0[RIP] -= SYSCALL_BYTES;
        }
        self
    }

    /// Of a thread that is about to begin a system call: before the instruction that makes it.
    pub(super) fn before_call(mut self) -> Self {
        self.0[RAX] = self.0[ORIG_RAX];
        self.0[RIP] -= SYSCALL_BYTES;
        self.0[ORIG_RAX] = u64::MAX;
        self
    }

    /// Sets the registers for entering a procedure: see `call`.
    pub(super) fn begin_call(&mut self, pc: u64, sp: u64, integers: &[u64], floats: u64) {
        const ARGUMENTS: [usize; 6] = [RDI, 13, 12, 11, 9, 8];
        self.set_pc(pc);
        self.0[RSP] = sp;
        for (place, value) in ARGUMENTS.iter().zip(integers) {
            self.0[*place] = *value;
        }
        self.0[RAX] = floats;
        // The psABI requires a clear direction flag on entry.
        self.0[18] &= !(1 << 10);
    }
}

fn register_index(number: u16) -> Result<usize, ControlError> {
    let row = PLACES.iter().find(|(own, _)| *own == number);
    row.map(|(_, place)| *place).ok_or_else(|| {
        let which = "0 to 16, 49 to 55, 58 and 59";
        ControlError::InvalidArgument(format!(
            "invalid integer register {number}: valid are {which}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_a_different_word() {
        let mut places: Vec<usize> = PLACES.iter().map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), PLACES.len());
        assert!(!places.contains(&ORIG_RAX));
    }

    #[test]
    fn only_writes_of_rax_and_rip_cancel_the_restart_of_a_system_call() {
        let mut registers = Registers([7; WORDS]);
        registers.put(3, 1).unwrap();
        assert_eq!(registers.0[ORIG_RAX], 7);
        registers.put(16, 0x1000).unwrap();
        assert_eq!((registers.pc(), registers.0[ORIG_RAX]), (0x1000, u64::MAX));
        assert!(registers.put(17, 0).is_err() && registers.get(48).is_err());
    }
}
