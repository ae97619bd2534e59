//! Sizes of datatypes of MPI, by their handles.
//!
//! In: a handle, and the memory of the process. Out: bytes of an element. MPICH has the size of a
//! predefined type in its handle (`MPIR_Datatype_get_basic_size` of mpir_datatype.h, 3 and 4);
//! Open MPI has it in the structure that the handle is the address of (`opal_datatype_t` of
//! opal_datatype.h, 4 and 5).

use serde::{Deserialize, Serialize};

/// What handles are.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatatypeHandles {
    /// Numbers, of MPICH.
    Numbers,
    /// Addresses, of Open MPI.
    Addresses,
}

/// The first byte of a handle of a predefined type.
const PREDEFINED: u32 = 0x4c;
/// Offset of the size in a structure of Open MPI.
const SIZE_OFFSET: u64 = 24;
/// Most bytes of an element; more is no size.
const MAX_BYTES: u64 = 1 << 40;

impl DatatypeHandles {
    /// The kind of handles of a library that defines this symbol, if it is one that shows it.
    pub fn by_symbol(symbol: &str) -> Option<Self> {
        match symbol {
            "MPIR_Process" | "MPIR_Err_return_comm" | "MPII_Version_string" => Some(Self::Numbers),
            "ompi_mpi_comm_world" => Some(Self::Addresses),
            _ => None,
        }
    }

    /// Bytes of an element; `None` for types that a program has made with MPICH, and where the
    /// memory cannot be read.
    pub fn size(self, handle: u64, word: impl FnOnce(u64) -> Option<u64>) -> Option<u64> {
        match self {
            Self::Numbers => {
                // An `int`: the upper half of its register is undefined.
                let handle = handle as u32;
                (handle >> 24 == PREDEFINED).then_some(u64::from(handle >> 8 & 0xff))
            }
            Self::Addresses => {
                word(handle.checked_add(SIZE_OFFSET)?).filter(|bytes| *bytes <= MAX_BYTES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DatatypeHandles::{Addresses, Numbers};

    #[test]
    fn mpich_has_the_size_in_the_handle() {
        assert_eq!(Numbers.size(0x7fff_4c00_080b, |_| None), Some(8), "MPI_DOUBLE");
        assert_eq!(Numbers.size(0x8c00_0003, |_| None), None, "a derived type");
    }

    #[test]
    fn open_mpi_has_the_size_in_memory() {
        let memory = |address| (address == 0x1018).then_some(4);
        assert_eq!(Addresses.size(0x1000, memory), Some(4));
        assert_eq!(Addresses.size(0x2000, memory), None);
        assert_eq!(Addresses.size(0x1000, |_| Some(u64::MAX)), None);
    }
}
