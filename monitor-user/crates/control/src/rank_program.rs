//! The process of a rank that has the program.

use monitor_jobs::RankProcesses;
use monitor_model::Identity;
use procfs::process::{MMapPath, Process};

/// File names of the libraries of an MPI program begin so.
const MPI_LIBRARIES: [&str; 2] = ["libmpi", "libpmix"];

/// The process of a rank that has the program: the first with a library of MPI, because a rank is
/// often a shell script around it.
fn program_process(rank: &RankProcesses) -> Identity {
    if rank.all.len() == 1 {
        return rank.process;
    }
    rank.all.iter().copied().find(|it| has_mpi(*it)).unwrap_or(rank.process)
}

/// The numbers of ranks, each with the process that has the program.
pub fn program_processes<'r>(
    ranks: impl IntoIterator<Item = &'r RankProcesses>,
) -> Vec<(u32, Identity)> {
    ranks.into_iter().map(|it| (it.rank, program_process(it))).collect()
}

fn has_mpi(process: Identity) -> bool {
    let Ok(pid) = i32::try_from(process.pid.0) else { return false };
    // One that has ended, or is hidden, has none.
    let Ok(maps) = Process::new(pid).and_then(|it| it.maps()) else { return false };
    maps.iter().any(|map| {
        let MMapPath::Path(path) = &map.pathname else { return false };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        MPI_LIBRARIES.iter().any(|it| name.starts_with(it))
    })
}
