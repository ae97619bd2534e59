//! Names of the functions of MPI: one for all symbols that a function has in C and Fortran.
//!
//! In: a symbol. Out: the name in C. A library defines each function twice, so that a tool can
//! define `MPI_Send` and call `PMPI_Send` (MPI 4.1, chapter 15); Fortran has names in lower case
//! with underscores at the end, or in upper case.

/// Endings of symbols of the module `mpi_f08`.
const F08: [&str; 2] = ["_f08", "_f08ts"];
/// Functions that every library of MPI defines.
const MARKS: [&str; 2] = ["MPI_Init", "MPI_Finalize"];

/// The functions that initialise MPI, by the names that tools cannot define: the other names are
/// aliases of these in the library, or call them.
pub const INIT: [&str; 3] = ["PMPI_Init", "PMPI_Init_thread", "PMPI_Session_init"];

/// The name in C of the function with this symbol: of `PMPI_Send`, `mpi_send_` and `MPI_SEND` it is
/// `MPI_Send`.
pub fn unified(symbol: &str) -> Option<String> {
    if is_c(symbol) {
        return Some(symbol.strip_prefix('P').unwrap_or(symbol).to_owned());
    }
    let lower = symbol.to_ascii_lowercase();
    let is_one_case = lower == symbol || symbol.to_ascii_uppercase() == symbol;
    let bare = lower.strip_prefix('p').unwrap_or(&lower).trim_end_matches('_');
    let bare = F08.iter().find_map(|it| bare.strip_suffix(it)).unwrap_or(bare);
    let rest = bare.strip_prefix("mpi_").filter(|rest| is_one_case && !rest.is_empty())?;
    let (first, more) = rest.split_at_checked(1)?;
    first.as_bytes()[0].is_ascii_alphabetic().then(|| {
        let first = first.to_ascii_uppercase();
        format!("MPI_{first}{more}")
    })
}

/// Whether a symbol is one that every library of MPI defines.
pub fn is_mark(symbol: &str) -> bool {
    unified(symbol).is_some_and(|name| MARKS.contains(&name.as_str()))
}

/// Whether a symbol is a function of C: `MPI_Send` or `PMPI_Send`.
fn is_c(symbol: &str) -> bool {
    let rest = symbol.strip_prefix('P').unwrap_or(symbol).strip_prefix("MPI_");
    let mut letters = rest.unwrap_or_default().bytes();
    let first = letters.next().is_some_and(|it| it.is_ascii_uppercase());
    first && letters.next().is_some_and(|it| it.is_ascii_lowercase() || it == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_symbols_of_a_function_have_one_name() {
        for symbol in ["MPI_Comm_rank", "PMPI_Comm_rank", "mpi_comm_rank_", "pmpi_comm_rank__"] {
            assert_eq!(unified(symbol).as_deref(), Some("MPI_Comm_rank"), "{symbol}");
        }
        for symbol in ["mpi_comm_rank", "MPI_COMM_RANK", "mpi_comm_rank_f08_"] {
            assert_eq!(unified(symbol).as_deref(), Some("MPI_Comm_rank"), "{symbol}");
        }
        assert_eq!(unified("MPI_T_pvar_read").as_deref(), Some("MPI_T_pvar_read"));
    }

    #[test]
    fn other_symbols_are_none() {
        for symbol in
            ["MPI_", "ompi_send", "MPIR_Send", "mPi_send", "mpi_", "pmpi", "xMPI_Send", ""]
        {
            assert_eq!(unified(symbol), None, "{symbol}");
        }
    }

    #[test]
    fn a_library_is_known_by_its_first_and_last_function() {
        assert!(is_mark("PMPI_Init") && is_mark("mpi_finalize_") && !is_mark("mpi_helper_"));
    }
}
