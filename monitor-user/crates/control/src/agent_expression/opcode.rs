//! The instructions of agent expressions, with the names and numbers of gdb's `gdbsupport/ax.def`.
//!
//! In: a byte of the code. Out: the instruction, and how long its operand is. Those for floating
//! point and trace variables are none of these: no condition that is evaluated here has them.

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Pops two numbers, pushes what the operation makes of them.
    Binary(Binary),
    /// Pushes 1 for 0, and 0 for every other number.
    LogNot,
    /// Inverts each bit.
    BitNot,
    /// Sign-extends the number on top from as many bits as its operand says.
    Ext,
    /// Zero-extends it.
    ZeroExt,
    /// Replaces an address by the number of this many bytes that is there.
    Ref(u8),
    /// Pops a number, and continues at another place unless it is 0.
    IfGoto,
    /// Continues at another place.
    Goto,
    /// Pushes the operand, a number of this many bytes.
    Const(u8),
    /// Pushes a register.
    Reg,
    /// The end: the result is on top.
    End,
    /// Pushes the number on top again.
    Dup,
    /// Drops it.
    Pop,
    /// Exchanges the two on top.
    Swap,
    /// Pushes the number that is as far below the top as the operand says.
    Pick,
    /// Moves the number on top below the next two.
    Rot,
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of ax.def say it")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    DivSigned,
    DivUnsigned,
    RemSigned,
    RemUnsigned,
    Lsh,
    RshSigned,
    RshUnsigned,
    BitAnd,
    BitOr,
    BitXor,
    Equal,
    LessSigned,
    LessUnsigned,
}

impl Opcode {
    /// The instruction with this number.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x02 => Self::Binary(Binary::Add),
            0x03 => Self::Binary(Binary::Sub),
            0x04 => Self::Binary(Binary::Mul),
            0x05 => Self::Binary(Binary::DivSigned),
            0x06 => Self::Binary(Binary::DivUnsigned),
            0x07 => Self::Binary(Binary::RemSigned),
            0x08 => Self::Binary(Binary::RemUnsigned),
            0x09 => Self::Binary(Binary::Lsh),
            0x0a => Self::Binary(Binary::RshSigned),
            0x0b => Self::Binary(Binary::RshUnsigned),
            0x0e => Self::LogNot,
            0x0f => Self::Binary(Binary::BitAnd),
            0x10 => Self::Binary(Binary::BitOr),
            0x11 => Self::Binary(Binary::BitXor),
            0x12 => Self::BitNot,
            0x13 => Self::Binary(Binary::Equal),
            0x14 => Self::Binary(Binary::LessSigned),
            0x15 => Self::Binary(Binary::LessUnsigned),
            0x16 => Self::Ext,
            0x17..=0x1a => Self::Ref(1 << (byte - 0x17)),
            0x20 => Self::IfGoto,
            0x21 => Self::Goto,
            0x22..=0x25 => Self::Const(1 << (byte - 0x22)),
            0x26 => Self::Reg,
            0x27 => Self::End,
            0x28 => Self::Dup,
            0x29 => Self::Pop,
            0x2a => Self::ZeroExt,
            0x2b => Self::Swap,
            0x32 => Self::Pick,
            0x33 => Self::Rot,
            _ => return None,
        })
    }

    /// Bytes of its operand, which is behind it, the highest first.
    pub const fn operand_bytes(self) -> usize {
        match self {
            Self::Ext | Self::ZeroExt | Self::Pick => 1,
            Self::IfGoto | Self::Goto | Self::Reg => 2,
            Self::Const(bytes) => bytes as usize,
            _ => 0,
        }
    }
}
