//! Records that the BPF programs write and user space reads, and, on the BPF target only, the
//! readers of kernel structures that the programs share.
//!
//! `abi` is plain data: no unsafe code, no pointers, no padding.
//! `kernel` is the only place that dereferences a kernel pointer; user space never sees it.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch, core_intrinsics))]
#![cfg_attr(not(target_arch = "bpf"), forbid(unsafe_code))]
#![cfg_attr(
    target_arch = "bpf",
    allow(
        internal_features,
        unsafe_code,
        reason = "a BPF program reads kernel memory; the verifier proves each read"
    )
)]

pub mod abi;
#[cfg(target_arch = "bpf")]
pub mod kernel;
