//! Parallel jobs: ranks that are held at one moment, merged call stacks against gdb and eu-stack,
//! the process table against a bare read of the environments of the ranks, launches that are held
//! in `MPI_Init`, and the profile of MPI calls against ranks without it, a profiler in their
//! program, and bpftrace; launches by our own host against PRRTE; and what discovery costs.

mod call_cost;
mod calls;
mod discovery;
mod fixture;
mod hold;
mod launch;
mod rank;
mod stacks;
mod table;

pub use rank::serve_as_rank;

/// Runs all.
pub fn run() {
    if !rank::is_possible() {
        println!("  needs mpiexec.mpich (apt install mpich)");
        return;
    }
    hold::run();
    stacks::run();
    table::run();
    launch::run();
    calls::run();
    call_cost::run();
    discovery::run();
}
