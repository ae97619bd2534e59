//! The descriptions that are part of the monitor.

/// Names and texts. Later ones have precedence.
pub const FILES: &[(&str, &str)] = &[
    ("libc.calls", include_str!("shipped/libc.calls")),
    ("openssl.calls", include_str!("shipped/openssl.calls")),
    ("pvm.calls", include_str!("shipped/pvm.calls")),
    ("ob1.calls", include_str!("shipped/ob1.calls")),
    (
        "mpich.calls",
        concat!(include_str!("shipped/mpich.calls"), include_str!("shipped/mpi.calls")),
    ),
    (
        "openmpi.calls",
        concat!(include_str!("shipped/openmpi.calls"), include_str!("shipped/mpi.calls")),
    ),
];
