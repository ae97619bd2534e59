//! `/proc/<pid>/cgroup`: the cgroup that a process is shown in, and the container of a path.
//!
//! In: the text, a line `id:controllers:path` for each hierarchy (cgroups(7)); with version 2 alone
//! there is one, `0::path`. Out: one path. Does not know what else a path names.

use crate::scan::lines;

/// A container, as a path names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'p> {
    /// Its runtime, if the path names it.
    pub runtime: Option<&'static str>,
    /// Its id or name.
    pub id: &'p str,
}

/// How the last part of a path begins, by the runtime; `.scope` ends it with the driver
/// `systemd` (docker: "runtime metrics"; podman: `libpod-`, whose monitor `libpod-conmon-` is not
/// of the container; containerd's CRI: `cri-containerd-`; CRI-O: `crio-`, likewise).
const PREFIXES: [(&str, &str); 4] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
];

/// How the name of an LXC container begins (lxc.container.conf(5), "lxc.cgroup.dir.container"); its
/// monitor has `lxc.monitor.`. Before version 4 the container is below `/lxc`.
const LXC: &str = "lxc.payload.";

/// The innermost container of a path. An id has 64 hexadecimal digits; without a prefix it is a
/// container below `/docker`, or below a pod, where the path does not name the runtime. LXC has
/// names.
pub fn container<'p>(path: &[&'p str]) -> Option<Container<'p>> {
    path.iter().enumerate().rev().find_map(|(at, part)| {
        let name = part.strip_suffix(".scope").unwrap_or(part);
        let prefixed = PREFIXES.iter().find_map(|(prefix, runtime)| {
            name.strip_prefix(prefix).filter(|id| is_id(id)).map(|id| (Some(*runtime), id))
        });
        let parent = at.checked_sub(1).and_then(|at| path.get(at)).copied();
        let in_lxc = part.strip_prefix(LXC).or_else(|| (parent == Some("lxc")).then_some(*part));
        if let Some(id) = in_lxc {
            return Some(Container { runtime: Some("lxc"), id });
        }
        let (runtime, id) = prefixed.or_else(|| match parent {
            _ if !is_id(name) => None,
            Some("docker") => Some((Some("docker"), name)),
            Some(parent) if parent.starts_with("pod") => Some((None, name)),
            _ => None,
        })?;
        Some(Container { runtime, id })
    })
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Whether there is no hierarchy but the unified one.
pub fn is_unified(text: &[u8]) -> bool {
    lines(text).all(|line| line.starts_with(b"0::"))
}

/// Whether this path is the one in the unified hierarchy, and not its root.
pub fn is_in_unified(text: &[u8], path: &[u8]) -> bool {
    path != b"/" && lines(text).any(|line| line.strip_prefix(b"0::") == Some(path))
}

/// The path of the cgroup: the first that names a container, in the unified hierarchy or in one of
/// version 1, where Docker and Kubernetes may have it; else the one in the unified hierarchy,
/// unless that is the root; else the longest of all.
pub fn path(text: &[u8]) -> Option<&[u8]> {
    let paths = || lines(text).filter_map(|line| line.splitn(3, |&byte| byte == b':').nth(2));
    let unified = lines(text).find_map(|line| line.strip_prefix(b"0::"));
    let all = || unified.into_iter().chain(paths());
    all()
        .find(|path| names_container(path))
        .or_else(|| unified.filter(|path| *path != b"/"))
        .or_else(|| all().max_by_key(|path| path.len()))
}

fn names_container(path: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(path) else { return false };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    container(&parts).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let found = path(text.as_bytes()).map(|it| std::str::from_utf8(it).unwrap());
        assert_eq!(found, want);
    }

    #[test]
    fn the_path_is_the_unified_one_and_without_it_the_longest() {
        check("4:memory:/a/b/c\n0::/x:y\n", Some("/x:y"));
        check("4:memory:/a/b\n1:name=systemd:/\n", Some("/a/b"));
        check("4:memory:/a/b\n0::/\n", Some("/a/b"));
        check("4:memory:/\n0::/\n", Some("/"));
        check("junk", None);
    }

    #[test]
    fn a_container_of_version_1_precedes_the_unified_path() {
        let docker = format!("/docker/{ID}");
        check(&format!("4:memory:{docker}\n0::/system.slice/containerd.service\n"), Some(&docker));
        let pod = format!("/kubepods/pod1/{ID}");
        check(&format!("9:cpuset:/a\n4:memory:{pod}\n0::/\n"), Some(&pod));
        let both = format!("4:memory:/docker/{ID}\n0::/system.slice/docker-{ID}.scope\n");
        check(&both, Some(&format!("/system.slice/docker-{ID}.scope")));
    }

    #[test]
    fn only_version_2_alone_is_unified() {
        assert!(is_unified(b"0::/a\n"));
        assert!(!is_unified(b"4:memory:/\n0::/a\n"));
        assert!(is_in_unified(b"4:memory:/a/b\n0::/a\n", b"/a"));
        assert!(!is_in_unified(b"4:memory:/a/b\n0::/\n", b"/a/b"));
        assert!(!is_in_unified(b"4:memory:/\n0::/\n", b"/"));
    }
}
