//! The screen of a cluster: keys in, whole frames out.

use super::draw::draw;
use super::selection::{OpenJob, PlaybackSpeed};
use super::state::{ClusterEffect, ClusterInput, ClusterState};
use crate::draw::tests::{golden, letters};
use crate::feed_source::PlaybackPos;
use crate::theme::{Palette, Theme};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use monitor_model::Ns;
use monitor_protocol::cluster::MemberState;
use monitor_protocol::rollup::{
    ClusterRollup, JobOnNode, JobSummary, NodeSummary, NodeTotals, RecordState, Usage, UserSummary,
};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const GIB: u64 = 1 << 30;

fn usage(processes: u64, cpu_percent: f64, rss_bytes: u64) -> Usage {
    let rate = Some(1024.0 * processes as f64);
    let (read_bytes_per_s, written_bytes_per_s) = (rate, Some(0.0));
    let cpu_percent = Some(cpu_percent);
    Usage { processes, cpu_percent, rss_bytes, read_bytes_per_s, written_bytes_per_s }
}

fn node(name: &str, state: MemberState, record: RecordState, busy: f64) -> NodeSummary {
    let totals = NodeTotals {
        load1: Some(busy * 64.0),
        online_cpus: Some(64),
        cpu_busy_percent: Some(busy * 6400.0),
        mem_total_bytes: Some(256 * GIB),
        mem_available_bytes: Some(64 * GIB),
        processes: 700,
        lost_records: 0,
    };
    NodeSummary {
        node: name.to_owned(),
        state,
        record,
        age_ns: (record != RecordState::None).then_some(400_000_000),
        lost: u64::from(record == RecordState::Late) * 5,
        totals: (record != RecordState::None).then_some(totals),
        jobs: 2,
        users: 3,
    }
}

fn rollup(n_nodes: usize) -> ClusterRollup {
    use MemberState::{Dead, Up};
    let mut nodes: Vec<_> = (1..=n_nodes)
        .map(|at| node(&format!("n{at:03}"), Up, RecordState::Current, (at % 10) as f64 / 10.0))
        .collect();
    nodes.push(node("x1", Up, RecordState::Late, 0.5));
    nodes.push(node("x2", Dead, RecordState::None, 0.5));
    let on = |node: &str, cpu| JobOnNode { node: node.to_owned(), usage: usage(8, cpu, GIB) };
    let job = |name: &str, uid, cpu| JobSummary {
        name: name.to_owned(),
        uid: Some(uid),
        user: (uid == 1000).then(|| "anna".to_owned()),
        n_nodes: 2,
        nodes: "n[001-002]".to_owned(),
        usage: usage(16, cpu, 2 * GIB),
        by_node: vec![on("n001", cpu / 4.0), on("n002", cpu * 3.0 / 4.0)],
    };
    let user = |name: &str, cpu| UserSummary {
        name: name.to_owned(),
        n_nodes: 2,
        usage: usage(20, cpu, 3 * GIB),
    };
    ClusterRollup {
        gateway: "login1".to_owned(),
        unix_ns: 1_767_225_600_000_000_000,
        is_limited: false,
        nodes,
        jobs: vec![job("slurm:77", 1000, 1600.0), job("mpi:a\u{1b}[2Jb", 1001, 800.0)],
        other_jobs: 3,
        users: vec![user("anna", 1600.0), user("1001", 800.0)],
        other_users: 0,
    }
}

struct Shown(ClusterState);

impl Shown {
    fn new(size: (u16, u16), n_nodes: usize, nodes: Option<&[&str]>) -> Self {
        let size = Size { width: size.0, height: size.1 };
        let nodes: Option<BTreeSet<String>> =
            nodes.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let mut shown = Self(ClusterState::new(size, Theme::default(), nodes));
        let _ = shown.0.handle(ClusterInput::Rollup(Arc::new(rollup(n_nodes))));
        shown
    }

    /// Of recordings, at second 5 of a minute.
    fn recorded(size: (u16, u16)) -> Self {
        let size = Size { width: size.0, height: size.1 };
        let period = Duration::from_secs(1);
        let mut shown = Self(ClusterState::recorded(size, Theme::default(), period));
        shown.play(5);
        shown
    }

    fn play(&mut self, second: u64) {
        let unix_ns = 1_767_225_600_000_000_000 + second * 1_000_000_000;
        let at = PlaybackPos {
            unix: Ns(unix_ns),
            elapsed: Duration::from_secs(second),
            length: Duration::from_secs(60),
        };
        let rollup = Arc::new(ClusterRollup { unix_ns, ..rollup(3) });
        let _ = self.0.handle(ClusterInput::Recorded(rollup, at));
    }

    fn press(&mut self, keys: &[KeyCode]) -> Option<ClusterEffect> {
        let press = |key: &KeyCode| {
            self.0.handle(ClusterInput::Key(KeyEvent::new(*key, KeyModifiers::NONE)))
        };
        keys.iter().map(press).last().flatten()
    }

    fn frame(&self) -> String {
        let Size { width, height } = self.0.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        draw(&self.0, &mut buffer);
        letters(&buffer)
    }

    fn first_row(&self) -> String {
        let frame = self.frame();
        frame.lines().nth(4).unwrap_or_default().split_whitespace().next().unwrap_or("").to_owned()
    }
}

#[test]
fn recordings_go_back_and_a_frozen_screen_shows_where_they_are() {
    let mut shown = Shown::recorded((80, 24));
    golden("cluster-recorded-80x24", &shown.frame());
    let speed = |every, is_frozen| {
        let every = Duration::from_millis(every);
        Some(ClusterEffect::Speed(PlaybackSpeed { every, is_frozen }))
    };
    let key = |key| [KeyCode::Char(key)];
    assert_eq!(shown.press(&key('+')), speed(500, false));
    assert_eq!(shown.press(&[KeyCode::Char('-'); 2]), speed(2000, false));
    assert_eq!(shown.press(&key(' ')), speed(2000, true));
    let second = |shown: &Shown| shown.0.playback.map(|it| it.elapsed.as_secs());
    shown.play(6);
    assert_eq!(second(&shown), Some(5), "frozen");
    for (letter, steps) in [('[', -1), (']', 1), ('{', -10), ('}', 10)] {
        assert_eq!(shown.press(&key(letter)), Some(ClusterEffect::Seek(steps)));
    }
    shown.play(40);
    shown.play(41);
    assert_eq!(second(&shown), Some(40), "only what it has gone to");
    // The nodes of a job come at once, and it remains frozen.
    let _ = shown.press(&[KeyCode::Tab, KeyCode::Enter]);
    shown.play(40);
    assert!(shown.0.is_frozen && shown.first_row() == "n002", "{}", shown.frame());
}

#[test]
fn a_gateway_has_no_recording_to_go_back_in() {
    let mut shown = Shown::new((80, 24), 3, None);
    assert_eq!(shown.press(&[KeyCode::Char('[')]), None);
    assert!(shown.0.message.as_ref().is_some_and(|it| it.contains("no recording plays")));
    assert_eq!(shown.press(&[KeyCode::Char('+')]), None);
}

#[test]
fn nodes_jobs_users_and_help_are_drawn() {
    let mut shown = Shown::new((80, 24), 3, None);
    golden("cluster-nodes-80x24", &shown.frame());
    let _ = shown.press(&[KeyCode::Tab]);
    golden("cluster-jobs-80x24", &shown.frame());
    let _ = shown.press(&[KeyCode::Tab]);
    golden("cluster-users-80x24", &shown.frame());
    let _ = shown.press(&[KeyCode::Char('?')]);
    golden("cluster-help-80x24", &shown.frame());
    shown.0.size = Size { width: 40, height: 10 };
    shown.0.theme = Theme { palette: Palette::Plain, ascii: true };
    let _ = shown.press(&[KeyCode::Char('?'), KeyCode::BackTab, KeyCode::BackTab]);
    golden("cluster-smallest", &shown.frame());
    shown.0.size = Size { width: 39, height: 10 };
    assert!(shown.frame().starts_with("too small: 39x10"), "{}", shown.frame());
}

#[test]
fn a_job_is_opened_on_its_nodes_and_a_node_on_its_processes() {
    let mut shown = Shown::new((80, 24), 3, None);
    let job = OpenJob { name: "slurm:77".into(), uid: Some(1000) };
    let opened = shown.press(&[KeyCode::Tab, KeyCode::Enter]);
    assert_eq!(opened, Some(ClusterEffect::Job(Some(job))));
    golden("cluster-job-80x24", &shown.frame());
    // The node with most CPU use is first.
    assert_eq!(shown.press(&[KeyCode::Enter]), Some(ClusterEffect::OpenNode("n002".into())));
    assert_eq!(shown.press(&[KeyCode::Esc]), Some(ClusterEffect::Job(None)));
    assert_eq!(shown.first_row(), "slurm:77");
    let _ = shown.press(&[KeyCode::Tab, KeyCode::Enter]);
    assert!(shown.frame().contains("a user has no screen"), "{}", shown.frame());
    assert_eq!(shown.press(&[KeyCode::Char('q')]), Some(ClusterEffect::Quit));
}

#[test]
fn the_selected_node_remains_selected_and_on_the_screen() {
    let mut shown = Shown::new((80, 24), 200, None);
    let _ = shown.press(&[KeyCode::End, KeyCode::Up, KeyCode::Up]);
    assert_eq!(shown.press(&[KeyCode::Enter]), Some(ClusterEffect::OpenNode("n200".into())));
    assert!(shown.frame().contains("n200") && !shown.frame().contains("n100"));
    // By CPU, those of 90 % are first.
    let _ = shown.press(&[KeyCode::Char('s')]);
    assert_eq!(shown.press(&[KeyCode::Enter]), Some(ClusterEffect::OpenNode("n200".into())));
    let _ = shown.press(&[KeyCode::Home]);
    assert_eq!(shown.first_row(), "n009");
    let _ = shown.0.handle(ClusterInput::Rollup(Arc::new(rollup(3))));
    assert!(shown.frame().contains("1/5"), "{}", shown.frame());
}

#[test]
fn a_frozen_screen_keeps_its_values_and_a_set_lists_its_nodes() {
    let mut shown = Shown::new((80, 24), 9, Some(&["n003", "x1"]));
    assert!(shown.frame().contains("1/2") && !shown.frame().contains("n001"));
    let _ = shown.press(&[KeyCode::Char(' ')]);
    let before = shown.frame();
    assert!(before.contains("FROZEN"), "{before}");
    let _ = shown.0.handle(ClusterInput::Rollup(Arc::new(rollup(200))));
    assert_eq!(shown.frame(), before);
}
