//! Offsets of kernel structure members, resolved from the running kernel's BTF at load time and set
//! as constants of the program.
//!
//! One list defines both halves: the record of offsets that a program reads, and the paths that the
//! loader resolves, in the same order. A member that this kernel lacks is [`ABSENT`]; the program
//! tests for it, and the verifier removes the branch.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The offset of a member that the running kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// Paths of one member over kernel versions, newest first, as `struct.member.member`.
/// A path that starts with `sizeof ` stands for the size of the structure.
#[derive(Clone, Copy, Debug)]
pub struct MemberPath {
    /// Paths to try in turn.
    pub paths: &'static [&'static str],
}

/// A record of offsets that a program needs.
pub trait Offsets: FromBytes + IntoBytes + Immutable {
    /// Name of the program's constant that holds the record.
    const SYMBOL: &'static str;
    /// The members, in the order of the record's fields.
    const MEMBERS: &'static [MemberPath];
}

/// Declares a record of offsets and the paths they are resolved from.
macro_rules! offsets {
    ($(#[$doc:meta])* $name:ident in $symbol:literal {
        $($field:ident: $first:literal $(| $other:literal)*,)+
    }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $name {
            $(#[doc = concat!("Offset of `", $first, "`.")] pub $field: u32,)+
        }

        impl $name {
            /// Every member absent: what the constant holds until the loader sets it.
            pub const ABSENT: Self = Self { $($field: $crate::abi::offset::ABSENT,)+ };
        }

        impl $crate::abi::offset::Offsets for $name {
            const SYMBOL: &'static str = $symbol;
            const MEMBERS: &'static [$crate::abi::offset::MemberPath] =
                &[$($crate::abi::offset::MemberPath { paths: &[$first $(, $other)*] },)+];
        }
    };
}
pub(crate) use offsets;
