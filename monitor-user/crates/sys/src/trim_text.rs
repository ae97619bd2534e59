//! Drops pages of our own code from resident memory once startup no longer needs them.
//!
//! Code and constants are pages of a file that cannot be written while it runs, so a page that is
//! used again is read from the page cache. A mapping with a modified page (a probe or a breakpoint)
//! is left alone: that page would be lost.

use rustix::mm::{Advice, madvise};

/// Drops all unmodified code and constant pages of this program.
pub fn drop_text_pages() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for (from, to) in clean_mappings(&mappings, &program.to_string_lossy()) {
        // SAFETY: the pages belong to a file and none is modified, so each is read again
        // unchanged.
        let _stays = unsafe { madvise(from as *mut _, to - from, Advice::LinuxDontNeed) };
    }
}

/// Address ranges of the mappings of a program that consist of unmodified file pages only, from
/// `/proc/self/smaps` (proc_pid_smaps(5)). Read-only data behind the code is excluded: the loader
/// wrote to it (RELRO).
fn clean_mappings<'m>(
    mappings: &'m str,
    program: &'m str,
) -> impl Iterator<Item = (usize, usize)> + use<'m> {
    let mut current = None;
    mappings.lines().filter_map(move |line| {
        if let Some(range) = range(line) {
            let is_text = line.contains(" r-xp ") || line.contains(" r--p 00000000 ");
            current = (is_text && line.ends_with(program)).then_some(range);
        }
        let anonymous = line.strip_prefix("Anonymous:")?.trim();
        current.take().filter(|_| anonymous == "0 kB")
    })
}

/// The address range in the first line of a mapping.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modified_mapping_stays() {
        let mapping = |from: &str, permissions: &str, written: u32| {
            format!("{from} {permissions} fe:00 53 /bin/it\nRss: 9 kB\nAnonymous:  {written} kB\n")
        };
        let mappings = [
            mapping("1000-2000", "r--p 00000000", 0),
            mapping("2000-3000", "r-xp 00001000", 0),
            mapping("3000-4000", "r-xp 00002000", 4),
            mapping("4000-5000", "r--p 00003000", 0),
            mapping("5000-6000", "rw-p 00004000", 0),
        ];
        let found: Vec<_> = clean_mappings(&mappings.concat(), "/bin/it").collect();
        assert_eq!(found, [(0x1000, 0x2000), (0x2000, 0x3000)]);
        assert_eq!(clean_mappings(&mappings.concat(), "/bin/other").count(), 0);
    }
}
