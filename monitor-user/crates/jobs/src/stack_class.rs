//! Classes of ranks: those whose call stacks are at one place, with one rank that represents them.
//!
//! In: the stacks of the ranks. Out: the classes, the largest first. Below a call of the MPI
//! library stacks differ from moment to moment while the library polls, so a place is the path to
//! the first function of it.

use crate::rank_set::RankSet;
use crate::stack_tree::{RankFrame, RankThread};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Ranks that are at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackClass {
    /// The ranks.
    pub ranks: RankSet,
    /// The first of them.
    pub representative: u32,
    /// The pid of its process.
    pub pid: u32,
    /// The path to the place: names of functions, outermost first.
    pub path: Vec<Arc<str>>,
}

/// Joins the classes of different ranks: those at one place are one class.
pub fn join(classes: impl IntoIterator<Item = StackClass>) -> Vec<StackClass> {
    let mut places: BTreeMap<Vec<Arc<str>>, StackClass> = BTreeMap::new();
    for class in classes {
        match places.entry(class.path.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(class)),
            Entry::Occupied(mut entry) => {
                let joined = entry.get_mut();
                joined.ranks = RankSet::union([&joined.ranks, &class.ranks]);
                if class.representative < joined.representative {
                    (joined.representative, joined.pid) = (class.representative, class.pid);
                }
            }
        }
    }
    largest_first(places.into_values())
}

fn largest_first(classes: impl Iterator<Item = StackClass>) -> Vec<StackClass> {
    let mut classes: Vec<StackClass> = classes.collect();
    classes.sort_by_key(|it| (u64::MAX - it.ranks.len(), it.representative));
    classes
}

/// The classes of the last stacks of threads. Each rank is in one class, by its first thread.
pub fn classes(threads: &[RankThread]) -> Vec<StackClass> {
    let mut first: BTreeMap<u32, &RankThread> = BTreeMap::new();
    for thread in threads.iter().filter(|it| !it.stacks.is_empty()) {
        first.entry(thread.rank).or_insert(thread);
    }
    let mut places: BTreeMap<Vec<Arc<str>>, Vec<&RankThread>> = BTreeMap::new();
    for thread in first.into_values() {
        let stack = thread.stacks.last().map(Vec::as_slice).unwrap_or_default();
        places.entry(path_to_mpi(stack)).or_default().push(thread);
    }
    let class = |(path, threads): (_, Vec<&RankThread>)| StackClass {
        ranks: threads.iter().map(|it| it.rank).collect(),
        representative: threads[0].rank,
        pid: threads[0].pid,
        path,
    };
    largest_first(places.into_iter().map(class))
}

/// The path to the first function of MPI; all of a stack that has none.
fn path_to_mpi(stack: &[RankFrame]) -> Vec<Arc<str>> {
    let mpi = stack.iter().position(|it| is_mpi(&it.name));
    let end = mpi.map_or(stack.len(), |index| index + 1);
    stack[..end].iter().map(|it| Arc::clone(&it.name)).collect()
}

/// Whether a function is one of MPI: in C `MPI_Recv` or `PMPI_Recv`, in Fortran `mpi_recv_`.
fn is_mpi(name: &str) -> bool {
    let function = name.split(" at ").next().unwrap_or_default();
    let is_fortran = function.starts_with("mpi_") || function.starts_with("pmpi_");
    function.starts_with("MPI_")
        || function.starts_with("PMPI_")
        || (is_fortran && function.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_tree::tests::thread;

    /// The classes as lines.
    fn lines(threads: &[RankThread]) -> Vec<String> {
        let line = |it: StackClass| format!("[{}] {}", it.ranks, it.path.join(">"));
        classes(threads).into_iter().map(line).collect()
    }

    #[test]
    fn ranks_in_one_call_of_mpi_are_one_class_wherever_the_library_is() {
        let threads = [
            thread(0, &["main compute"]),
            thread(1, &["main PMPI_Recv progress poll"]),
            thread(2, &["main PMPI_Recv progress"]),
            thread(3, &["main pmpi_send_"]),
        ];
        let want = ["[1-2] main>PMPI_Recv", "[0] main>compute", "[3] main>pmpi_send_"];
        assert_eq!(lines(&threads), want);
    }

    #[test]
    fn classes_of_parts_of_the_ranks_are_joined_to_those_of_all() {
        let threads = [
            thread(0, &["main compute"]),
            thread(1, &["main PMPI_Recv"]),
            thread(2, &["main PMPI_Recv"]),
            thread(3, &["main compute"]),
            thread(4, &["main compute"]),
        ];
        let parts = classes(&threads[2..]).into_iter().chain(classes(&threads[..2]));
        assert_eq!(join(parts), classes(&threads));
    }

    #[test]
    fn functions_of_mpi_are_known_by_their_names() {
        for name in ["MPI_Recv", "PMPI_Recv at recv.c:12", "mpi_recv_", "pmpi_recv__"] {
            assert!(is_mpi(name), "{name}");
        }
        for name in ["mpi_helper", "xMPI_Recv", "ompi_request_wait", "mpi_helper at mpi_"] {
            assert!(!is_mpi(name), "{name}");
        }
    }

    #[test]
    fn a_function_of_the_program_is_not_taken_for_one_of_mpi() {
        let threads = [thread(0, &["main mpi_helper a"]), thread(1, &["main mpi_helper b"])];
        assert_eq!(lines(&threads), ["[0] main>mpi_helper>a", "[1] main>mpi_helper>b"]);
    }

    #[test]
    fn a_rank_is_judged_by_its_first_thread_at_the_last_look() {
        let threads = [
            thread(0, &["main MPI_Recv", "main MPI_Send"]),
            thread(0, &["worker"]),
            thread(1, &["main MPI_Send", "main wait"]),
            thread(2, &[]),
        ];
        assert_eq!(lines(&threads), ["[0] main>MPI_Send", "[1] main>wait"]);
    }
}
