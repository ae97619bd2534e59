//! The floating point registers of x86-64.
//!
//! DWARF numbers of the psABI: 17 to 32 are xmm0 to xmm15, whose low lane is read and written as a
//! double; 33 to 40 are st0 to st7, from the top of the stack.
//! The layout is that of `fxsave` (Intel SDM volume 1, 10.5.1), which is the start of `xsave`.
//! Upper lanes stay unchanged; xmm16 and above are not supported: their offset varies by model.

use crate::ControlError;
use monitor_sys::ptrace;

/// Bytes that hold the `xsave` area of any current processor, including AMX tiles.
const ROOM: usize = 16 << 10;
const FXSAVE: usize = 512;
/// Bytes of `fxsave` that are left to software.
const SOFTWARE: usize = 464;
/// `FP_XSTATE_MAGIC1` and `FP_XSTATE_MAGIC2`.
const MAGIC: u32 = 0x4650_5853;
const MAGIC_AFTER: u32 = 0x4650_5845;
/// The component of AMX tiles, and its offset. It is the last one, and a thread that may not use it
/// has none in its signal frames.
const TILE_DATA: u32 = 18;
const TILES: usize = 2816;
const TAGS: usize = 4;
const ST: usize = 32;
const XMM: usize = 160;
/// Offset of XSTATE_BV, the components in use; bit 0 is x87, bit 1 SSE.
const IN_USE: usize = 512;

/// The floating point registers of a stopped thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floats {
    set: i32,
    bytes: Vec<u8>,
}

impl Floats {
    /// Reads them from a stopped thread.
    pub fn read(tid: i32) -> Result<Self, ControlError> {
        let mut bytes = vec![0; ROOM];
        let set = ptrace::XSTATE_REGSET;
        let (set, length) = match ptrace::read_regset(tid, set, &mut bytes) {
            Ok(length) => (set, length),
            // A processor without `xsave` has the legacy part only.
            Err(_) => {
                let read = ptrace::read_regset(tid, ptrace::FLOAT_REGSET, &mut bytes);
                (
                    ptrace::FLOAT_REGSET,
                    read.map_err(|it| ControlError::from_io("reading registers", &it))?,
                )
            }
        };
        bytes.truncate(length);
        if length < FXSAVE {
            return Err(ControlError::Unsupported("the process runs 32-bit instructions".into()));
        }
        Ok(Self { set, bytes })
    }

    /// Writes them to a stopped thread.
    pub fn write(&self, tid: i32) -> Result<(), ControlError> {
        let set = ptrace::write_regset(tid, self.set, &self.bytes);
        set.map_err(|error| ControlError::from_io("writing registers", &error))
    }

    /// The whole area as the kernel has it.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The same registers with the first bytes replaced.
    pub fn with_bytes(mut self, bytes: &[u8]) -> Result<Self, ControlError> {
        let size = self.bytes.len();
        let part = self.bytes.get_mut(..bytes.len()).ok_or_else(|| {
            let length = bytes.len();
            ControlError::InvalidArgument(format!("{length} bytes: the registers have {size}"))
        })?;
        part.copy_from_slice(bytes);
        Ok(self)
    }

    /// As rt_sigreturn(2) takes them: with their size in bytes that the processor leaves to
    /// software (`struct _fpx_sw_bytes` of arch/x86/include/uapi/asm/sigcontext.h).
    pub(super) fn signal_frame(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if self.set != ptrace::XSTATE_REGSET {
            return bytes;
        }
        let in_use = u64::from_le_bytes(self.part(IN_USE)) | 0b11;
        if in_use >> TILE_DATA & 1 == 0 {
            bytes.truncate(TILES);
        }
        let size = u32::try_from(bytes.len()).unwrap_or(0);
        let software = &mut bytes[SOFTWARE..FXSAVE];
        software.fill(0);
        software[..4].copy_from_slice(&MAGIC.to_le_bytes());
        software[4..8].copy_from_slice(&(size + 4).to_le_bytes());
        software[8..16].copy_from_slice(&in_use.to_le_bytes());
        software[16..20].copy_from_slice(&size.to_le_bytes());
        bytes.extend(MAGIC_AFTER.to_le_bytes());
        bytes
    }

    /// The register with this DWARF number.
    pub fn get(&self, number: u16) -> Result<f64, ControlError> {
        let place = FloatSlot::from_dwarf(number)?;
        Ok(match place {
            FloatSlot::Xmm(at) => f64::from_le_bytes(self.part(at)),
            FloatSlot::St(at) => from_extended(self.part(at)),
        })
    }

    /// Sets the register with this DWARF number.
    pub fn put(&mut self, number: u16, value: f64) -> Result<(), ControlError> {
        match FloatSlot::from_dwarf(number)? {
            FloatSlot::Xmm(at) => {
                self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                self.use_part(0b10);
            }
            FloatSlot::St(at) => {
                self.bytes[at..at + 10].copy_from_slice(&to_extended(value));
                // Tags are indexed by physical register, numbers count from the top of the stack.
                let top = usize::from(self.bytes[3] >> 3 & 7);
                let register = ((at - ST) / 16 + top) % 8;
                self.bytes[TAGS] |= 1 << register;
                self.use_part(0b01);
            }
        }
        Ok(())
    }

    fn use_part(&mut self, bit: u8) {
        if let Some(byte) = self.bytes.get_mut(IN_USE) {
            *byte |= bit;
        }
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|place| self.bytes[at + place])
    }
}

enum FloatSlot {
    Xmm(usize),
    St(usize),
}

impl FloatSlot {
    fn from_dwarf(number: u16) -> Result<Self, ControlError> {
        match number {
            17..=32 => Ok(Self::Xmm(XMM + 16 * usize::from(number - 17))),
            33..=40 => Ok(Self::St(ST + 16 * usize::from(number - 33))),
            _ => Err(ControlError::InvalidArgument(format!(
                "invalid floating point register {number}: valid are 17 to 40"
            ))),
        }
    }
}

/// The 80-bit format stores the leading one that a double omits, and has four more exponent bits;
/// values beyond a double are rounded as the processor would.
fn from_extended(bytes: [u8; 10]) -> f64 {
    let fraction = u64::from_le_bytes(std::array::from_fn(|place| bytes[place]));
    let head = u16::from_le_bytes([bytes[8], bytes[9]]);
    let sign = if head >> 15 == 1 { -1.0 } else { 1.0 };
    match head & 0x7fff {
        0x7fff if fraction << 1 == 0 => sign * f64::INFINITY,
        0x7fff => f64::NAN,
        exponent => {
            // In two steps, because the scale alone may underflow.
            let scale = i32::from(exponent) - 16383 - 63;
            let half = scale / 2;
            sign * (fraction as f64) * 2_f64.powi(half) * 2_f64.powi(scale - half)
        }
    }
}

fn to_extended(value: f64) -> [u8; 10] {
    let bits = value.to_bits();
    let sign = u16::from(value.is_sign_negative()) << 15;
    let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits << 12 >> 1);
    let (head, fraction) = match exponent {
        0 if fraction == 0 => (0, 0),
        // A subnormal double is normalised.
        0 => {
            let shift = fraction.leading_zeros();
            (16383 - 1022 - shift, fraction << shift)
        }
        0x7ff => (0x7fff, 1 << 63 | fraction),
        exponent => (u32::try_from(exponent).unwrap_or(0) + 16383 - 1023, 1 << 63 | fraction),
    };
    let head = sign | u16::try_from(head).unwrap_or(0x7fff);
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&fraction.to_le_bytes());
    bytes[8..].copy_from_slice(&head.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_survives_the_wider_format() {
        for value in [0.0, -0.0, 1.0, -2.5, 1e300, f64::MIN_POSITIVE, 5e-324, f64::INFINITY] {
            assert_eq!(from_extended(to_extended(value)).to_bits(), value.to_bits(), "{value}");
        }
        assert!(from_extended(to_extended(f64::NAN)).is_nan());
        // 1.0 in the 80-bit format: the exponent bias and the explicit leading one.
        assert_eq!(to_extended(1.0), [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
    }

    #[test]
    fn a_written_register_is_marked_in_use() {
        let mut floats = Floats { set: 0, bytes: vec![0; 1024] };
        floats.put(17, 2.5).unwrap();
        floats.put(33, -1.0).unwrap();
        assert_eq!((floats.get(17), floats.get(33)), (Ok(2.5), Ok(-1.0)));
        assert_eq!((floats.bytes[IN_USE], floats.bytes[TAGS]), (0b11, 1));
        assert!(floats.get(16).is_err() && floats.put(41, 0.0).is_err());
    }
}
