//! The busy time, from trees of files.

use super::*;

/// A folder of files, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let process = std::process::id();
        let it = Self(std::env::temp_dir().join(format!("monitor-node-cpu-{process}-{name}")));
        files.iter().for_each(|(path, text)| it.write(path, text));
        it
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn remove(&self, path: &str) {
        std::fs::remove_dir_all(self.0.join(path)).expect("a folder");
    }

    fn read(&self, cpu: &mut NodeCpu) -> (Node, Vec<String>) {
        let (mut node, mut notes) = (Node::default(), Vec::new());
        for (field, value) in SAMPLED.into_iter().zip([100, 10, 50, 3, 4]) {
            node.row.set(field, value);
        }
        node.cpus = vec![(0, Default::default()), (2, Default::default())];
        cpu.read(&Root::below(&self.0), &mut node, &mut notes);
        let notes = notes.into_iter().map(|it| it.text).filter(|it| it.starts_with("cpu"));
        (node, notes.collect())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn check(tree: &Tree, cpu: &mut NodeCpu, wanted: [Option<u64>; 3]) {
    let (node, _) = tree.read(cpu);
    assert_eq!([F::CpuTasks, F::CpuBusy, F::CpuBusySampled].map(|it| node.row.get(it)), wanted);
}

const VERSION_1: [(&str, &str); 2] = [
    ("sys/fs/cgroup/cpuacct/release_agent", "\n"),
    ("sys/fs/cgroup/cpuacct/cpuacct.usage_percpu", "1000 200 30 \n"),
];

#[test]
fn version_1_has_the_time_of_all_tasks_and_of_each_processor() {
    let tree = Tree::new("v1", &VERSION_1);
    check(&tree, &mut NodeCpu::default(), [Some(1230), Some(1230), Some(0)]);
    let (node, notes) = tree.read(&mut NodeCpu::default());
    let by_cpu: Vec<_> = node.cpus.iter().map(|(_, row)| row.get(CpuField::Busy)).collect();
    assert_eq!((by_cpu, notes.len()), (vec![Some(1000), Some(30)], 0));
}

#[test]
fn interrupts_are_busy_time_of_their_own_where_the_kernel_counts_them_apart() {
    let tree = Tree::new("irq", &VERSION_1);
    tree.write("proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    check(&tree, &mut NodeCpu::default(), [Some(1230), Some(1237), Some(0)]);
}

#[test]
fn version_2_is_the_sum_of_top_level_groups_and_threads_in_the_root() {
    let tree = Tree::new(
        "v2",
        &[
            ("sys/fs/cgroup/cgroup.controllers", ""),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9000000\n"),
            ("sys/fs/cgroup/cgroup.threads", "7\n8\n"),
            ("sys/fs/cgroup/a.slice/cpu.stat", "usage_usec 5\nuser_usec 5\n"),
            ("sys/fs/cgroup/b.slice/cpu.stat", "usage_usec 7\n"),
            ("proc/self/schedstat", "1 1 1\n"),
            ("proc/7/schedstat", "100 1 1\n"),
        ],
    );
    let mut cpu = NodeCpu::default();
    check(&tree, &mut cpu, [Some(12_100), Some(12_100), Some(0)]);
    // What is removed keeps what it used, and a new thread of the same number starts from zero.
    tree.remove("sys/fs/cgroup/b.slice");
    tree.write("proc/7/schedstat", "30 1 1\n");
    tree.write("proc/8/schedstat", "5 1 1\n");
    check(&tree, &mut cpu, [Some(12_135), Some(12_135), Some(0)]);
    tree.write("sys/fs/cgroup/b.slice/cpu.stat", "usage_usec 1\n");
    check(&tree, &mut cpu, [Some(13_135), Some(13_135), Some(0)]);
}

#[test]
fn a_group_that_is_not_the_root_does_not_count_the_node() {
    let tree = Tree::new(
        "namespace",
        &[
            ("sys/fs/cgroup/cgroup.controllers", ""),
            ("sys/fs/cgroup/cgroup.events", "populated 1\n"),
            ("sys/fs/cgroup/cpuacct/cpuacct.usage_percpu", "1000 200 30 \n"),
        ],
    );
    let mut cpu = NodeCpu::default();
    check(&tree, &mut cpu, [None, Some(167), Some(1)]);
    let (_, notes) = tree.read(&mut cpu);
    assert_eq!(
        notes,
        ["cpu_busy_ns is a sum of samples of the timer: \
        this cgroup namespace does not show the root group"]
    );
}

#[test]
fn without_control_groups_the_samples_are_marked() {
    let tree = Tree::new("none", &[("proc/stat", "")]);
    check(&tree, &mut NodeCpu::default(), [None, Some(167), Some(1)]);
}

#[test]
fn a_reading_that_was_interrupted_is_repeated() {
    let mut readings = 0;
    let (_, last) = read_uninterrupted(3, || {
        readings += 1;
        let until = clock::boot().0 + 2 * MAX_READING.0;
        while readings < 3 && clock::boot().0 < until {}
        readings
    });
    assert_eq!(last, 3);
}
