//! Our own code in memory: what only loading needs is given back.
//!
//! Code and constants are pages of a file that cannot be written while it is run, so what is used
//! again comes back from the page cache, a few pages at each fault. A page that somebody has put a
//! probe or a breakpoint into is no page of the file any more; then all of them stay.

use rustix::mm::{Advice, madvise};

/// Takes all of it out of our memory.
pub fn give_back() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for (from, to) in code(&mappings, &program.to_string_lossy()) {
        // SAFETY: the pages are those of a file, and nobody has written to any of them: each
        // comes back as it was.
        let _stays = unsafe { madvise(from as *mut _, to - from, Advice::LinuxDontNeed) };
    }
}

/// The addresses of what was mapped from a program and has none but the pages of its file, from
/// `/proc/self/smaps` (proc_pid_smaps(5)). Not what is read-only behind the code: the loader has
/// written there before it was.
fn code<'m>(mappings: &'m str, program: &'m str) -> impl Iterator<Item = (usize, usize)> + use<'m> {
    let mut current = None;
    mappings.lines().filter_map(move |line| {
        if let Some(range) = range(line) {
            let is_code = line.contains(" r-xp ") || line.contains(" r--p 00000000 ");
            current = (is_code && line.ends_with(program)).then_some(range);
        }
        let n_written = line.strip_prefix("Anonymous:")?.trim();
        current.take().filter(|_| n_written == "0 kB")
    })
}

/// The addresses of the first line of a mapping.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_stays() {
        let mapping = |from: &str, rights: &str, written: u32| {
            format!("{from} {rights} fe:00 53 /bin/it\nRss: 9 kB\nAnonymous:  {written} kB\n")
        };
        let mappings = [
            mapping("1000-2000", "r--p 00000000", 0),
            mapping("2000-3000", "r-xp 00001000", 0),
            mapping("3000-4000", "r-xp 00002000", 4),
            mapping("4000-5000", "r--p 00003000", 0),
            mapping("5000-6000", "rw-p 00004000", 0),
        ];
        let found: Vec<_> = code(&mappings.concat(), "/bin/it").collect();
        assert_eq!(found, [(0x1000, 0x2000), (0x2000, 0x3000)]);
        assert_eq!(code(&mappings.concat(), "/bin/other").count(), 0);
    }
}
