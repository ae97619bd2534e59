//! A function as its library declares it, and where the machine has its arguments.
//!
//! In: what `resolve` made of a prototype. Out: types of values, and their locations: the registers
//! and stack slots of the calling convention of 64-bit x86 (System V psABI, 3.2.3).

use super::value_names::ValueNames;
use std::sync::Arc;

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// The type of its result.
    pub result: ValueType,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The result after which `errno` has the cause of the failure.
    pub fails: Option<i64>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, or its number.
    pub name: String,
    /// Whether the caller or the function writes its value.
    pub direction: Direction,
    /// Its type, or the type that it points to.
    pub kind: ValueType,
    /// Whether the value is reached through a pointer.
    pub is_pointed: bool,
    /// Length in bytes, if it is a buffer.
    pub length: Option<BufferLength>,
}

/// Which side writes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The caller: it is known as the call begins.
    In,
    /// The function: it is known as the call returns.
    Out,
    /// Both.
    InOut,
}

impl Direction {
    /// Whether it is known as the call begins.
    pub const fn is_input(self) -> bool {
        matches!(self, Self::In | Self::InOut)
    }

    /// Whether it is known as the call returns.
    pub const fn is_output(self) -> bool {
        matches!(self, Self::Out | Self::InOut)
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// No value.
    Void,
    /// An integer.
    Number(Width),
    /// An integer whose values have names.
    Named(Arc<ValueNames>, Width),
    /// An address that is only shown.
    Address,
    /// A text that ends with a zero byte, or with its length.
    Text,
    /// A floating-point number, by size in bytes; BPF programs cannot read its registers.
    Float(u8),
    /// A structure; only behind a pointer.
    Record(Arc<StructType>),
}

/// Width and sign of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Size in bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it can be negative.
    pub is_signed: bool,
}

impl Width {
    /// Clears the bits beyond the width: the upper half of a register is undefined for an `int`.
    pub fn truncate(self, raw: u64) -> u64 {
        raw & self.bits()
    }

    /// A mask of its bits.
    pub const fn bits(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes as u32)
    }

    /// The number that these bits encode.
    pub fn number(self, raw: u64) -> i128 {
        let cut = i128::from(self.truncate(raw));
        let sign = 1i128 << (8 * u32::from(self.bytes) - 1);
        if self.is_signed && cut & sign != 0 { cut - 2 * sign } else { cut }
    }
}

/// A structure of C.
#[derive(Debug, PartialEq)]
pub struct StructType {
    /// The declared members.
    pub members: Vec<Member>,
}

/// A member of a structure.
#[derive(Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type; no structure.
    pub kind: ValueType,
    /// Its location.
    pub path: DerefPath,
    /// Subtracted from the value that is read.
    pub subtract: u32,
}

/// The path from an address to a value: an offset; with further steps, the word there is the next
/// address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DerefPath {
    /// Offset of the first step, in bytes.
    pub offset: u32,
    /// Offsets of the next steps.
    pub next: [Option<u32>; 2],
}

impl DerefPath {
    /// One step.
    pub const fn at(offset: u32) -> Self {
        Self { offset, next: [None; 2] }
    }

    /// All steps.
    pub fn steps(self) -> impl Iterator<Item = u32> {
        [Some(self.offset)].into_iter().chain(self.next).flatten()
    }
}

/// The length of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferLength {
    /// The parameter with this index, multiplied by another one if given.
    Parameter(usize, Option<usize>),
    /// What the parameter with this index points to.
    Pointee(usize),
    /// The result.
    Result,
    /// This number of bytes.
    Bytes(u64),
}

/// Location of an argument at the entry of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgLocation {
    /// One of the six registers for integers.
    Register(u8),
    /// An offset in bytes above the stack pointer.
    Stack(u32),
    /// A register for floating-point numbers, which cannot be read.
    OutOfReach,
}

/// Number of registers for integers, and for floating-point numbers.
const REGISTERS: (u8, u8) = (6, 8);
/// Offset of the first argument on the stack, above the return address.
const FIRST_ON_STACK: u32 = 8;

impl Signature {
    /// The location of each argument.
    pub fn arg_locations(&self) -> Vec<ArgLocation> {
        let (mut integers, mut floats, mut stack) = (0, 0, FIRST_ON_STACK);
        let mut next_on_stack = || {
            stack += 8;
            ArgLocation::Stack(stack - 8)
        };
        let location = |parameter: &Parameter| {
            let is_float = matches!(parameter.kind, ValueType::Float(_)) && !parameter.is_pointed;
            let (used, most) =
                if is_float { (&mut floats, REGISTERS.1) } else { (&mut integers, REGISTERS.0) };
            if *used == most {
                return next_on_stack();
            }
            *used += 1;
            if is_float { ArgLocation::OutOfReach } else { ArgLocation::Register(*used - 1) }
        };
        self.parameters.iter().map(location).collect()
    }
}
