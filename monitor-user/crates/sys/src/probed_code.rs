//! Code with known instructions, to measure what a probe on each of them costs.
//!
//! In: nothing. Out: a function, and the distances of its instructions from its start. The kernel
//! emulates the first, may replace the five-byte NOP by a call, and single-steps the others.

/// Offset of an instruction that the kernel emulates (`push`), the first of the function.
pub const EMULATED: u64 = 0;
/// Offset of a five-byte NOP.
pub const PATCHED: u64 = 4;
/// Offset of the return instruction.
pub const RETURN: u64 = 10;

/// The name of the function in the table of symbols.
pub const NAME: &str = "monitor_probed_code";

/// Functions that do nothing, with the instructions above.
#[cfg(target_arch = "x86_64")]
macro_rules! empty_functions {
    ($($(#[$attribute:meta])* $visibility:vis fn $name:ident;)*) => {$(
        $(#[$attribute])*
        #[unsafe(naked)]
        $visibility extern "C" fn $name() {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                "pop rbp",
                "ret",
            )
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
empty_functions! {
    /// Does nothing.
    #[unsafe(export_name = "monitor_probed_code")]
    pub fn call;
    fn second;
    fn third;
    fn fourth;
    fn fifth;
}

/// Functions with the same instructions, so that each can have another probe at the same time.
#[cfg(target_arch = "x86_64")]
pub const COPIES: [extern "C" fn(); 5] = [call, second, third, fourth, fifth];

/// A function that begins with a five-byte NOP.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub extern "C" fn patched_start() {
    std::arch::naked_asm!(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "ret")
}

/// Offset of its return instruction.
pub const PATCHED_RETURN: u64 = 5;

/// A function that begins with an instruction that the kernel single-steps.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub extern "C" fn stepped_start() {
    std::arch::naked_asm!("mov eax, eax", "ret")
}

/// Offset of its return instruction.
pub const STEPPED_RETURN: u64 = 2;
