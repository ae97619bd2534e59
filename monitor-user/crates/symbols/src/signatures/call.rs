//! A function as its library declares it, and where the machine has its arguments.
//!
//! In: what `resolve` made of a prototype. Out: kinds of values, and seats: the registers and
//! places on the stack of the calling convention of 64-bit x86 (System V psABI, 3.2.3).

use super::value_names::ValueNames;
use std::sync::Arc;

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// What it gives.
    pub result: ValueType,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// The result that says that `errno` tells why.
    pub fails: Option<i64>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, or its number.
    pub name: String,
    /// Who writes what it stands for.
    pub direction: Direction,
    /// What it is, or what it points to.
    pub kind: ValueType,
    /// Whether the value is reached through a pointer.
    pub is_pointed: bool,
    /// How many bytes there are, if it is a buffer.
    pub length: Option<BufferLength>,
}

/// Who writes a parameter.
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

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// There is none.
    Void,
    /// A whole number.
    Number(Width),
    /// A whole number whose values have names.
    Named(Arc<ValueNames>, Width),
    /// An address that is only shown.
    Address,
    /// A text that ends with a zero byte, or with its length.
    Text,
    /// A number with a fraction: its registers are out of reach of the kernel's programs.
    Float(u8),
    /// Several values, one behind the other; only behind a pointer.
    Record(Arc<StructType>),
}

/// How wide a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it can be below zero.
    pub is_signed: bool,
}

impl Width {
    /// Cuts off what lies beyond: the upper half of a register means nothing for an `int`.
    pub fn truncate(self, raw: u64) -> u64 {
        raw & self.bits()
    }

    /// The bits that it has.
    pub const fn bits(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes as u32)
    }

    /// The number that these bits are.
    pub fn number(self, raw: u64) -> i128 {
        let cut = i128::from(self.truncate(raw));
        let sign = 1i128 << (8 * u32::from(self.bytes) - 1);
        if self.is_signed && cut & sign != 0 { cut - 2 * sign } else { cut }
    }
}

/// A structure of C.
#[derive(Debug, PartialEq)]
pub struct StructType {
    /// The members that are of interest.
    pub members: Vec<Member>,
}

/// A member of a structure.
#[derive(Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What it is; no structure.
    pub kind: ValueType,
    /// Where it is.
    pub path: DerefPath,
    /// How much less than what stands there is told.
    pub subtract: u32,
}

/// The way from an address to a value: so many bytes behind it; where the way goes on, that is the
/// next address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DerefPath {
    /// The first step.
    pub offset: u32,
    /// The next ones.
    pub onward: [Option<u32>; 2],
}

impl DerefPath {
    /// One step.
    pub const fn at(offset: u32) -> Self {
        Self { offset, onward: [None; 2] }
    }

    /// All steps.
    pub fn steps(self) -> impl Iterator<Item = u32> {
        [Some(self.offset)].into_iter().chain(self.onward).flatten()
    }
}

/// How long a buffer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferLength {
    /// As the parameter with this number says, times what another one says.
    Parameter(usize, Option<usize>),
    /// As what the parameter with this number points to says.
    Pointee(usize),
    /// As the result says.
    Result,
    /// So many bytes.
    Bytes(u64),
}

/// Where an argument is as the function is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgLocation {
    /// In one of the six registers for whole numbers.
    Register(u8),
    /// So many bytes above the stack pointer.
    Stack(u32),
    /// In a register for fractions.
    OutOfReach,
}

/// Registers for whole numbers, and for fractions.
const REGISTERS: (u8, u8) = (6, 8);
/// What is on top of the stack: the return address.
const FIRST_ON_STACK: u32 = 8;

impl Signature {
    /// Where each argument is.
    pub fn arg_locations(&self) -> Vec<ArgLocation> {
        let (mut whole, mut fractions, mut stack) = (0, 0, FIRST_ON_STACK);
        let mut next_on_stack = || {
            stack += 8;
            ArgLocation::Stack(stack - 8)
        };
        let seat = |parameter: &Parameter| {
            let is_fraction =
                matches!(parameter.kind, ValueType::Float(_)) && !parameter.is_pointed;
            let (used, most) =
                if is_fraction { (&mut fractions, REGISTERS.1) } else { (&mut whole, REGISTERS.0) };
            if *used == most {
                return next_on_stack();
            }
            *used += 1;
            if is_fraction { ArgLocation::OutOfReach } else { ArgLocation::Register(*used - 1) }
        };
        self.parameters.iter().map(seat).collect()
    }
}
