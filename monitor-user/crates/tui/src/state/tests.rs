//! What keys, mouse and readings do to the state.

use super::scene::{Scene, rules};
use super::*;
use crate::act::What;
use crossterm::event::KeyCode::{Backspace, Char, Down, End, Enter, Esc, Home, Tab as TabKey, Up};

const SIZE: (u16, u16) = (80, 24);

#[track_caller]
fn names(scene: &Scene, want: &str) {
    assert_eq!(scene.names(), want);
}

#[test]
fn the_busiest_come_first_and_one_key_turns_that_round() {
    let mut scene = Scene::after(2, SIZE);
    names(&scene, "mpi_solver mpi_solver mpirun systemd sshd bash");
    assert_eq!(scene.state.rows[0].of, Of::Process(4));
    let _ = scene.types("r");
    names(&scene, "bash sshd systemd mpirun mpi_solver mpi_solver");
}

#[test]
fn who_came_and_who_went_is_marked_for_one_reading() {
    let mut scene = Scene::after(3, SIZE);
    let marks = |scene: &Scene| {
        let rows = scene.state.rows.iter().filter(|row| row.mark != Mark::None);
        rows.map(|row| (row.of, row.mark)).collect::<Vec<_>>().len()
    };
    assert_eq!(marks(&scene), 3, "make came, true came and went, sshd went");
    let counts = row::counts(&scene.state.news.rates);
    assert_eq!((counts.living, counts.came, counts.went), (6, 1, 2));
    scene.read(1);
    assert_eq!(marks(&scene), 0);
}

#[test]
fn the_bar_stays_with_its_process() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.press(&[Down, Down]);
    assert_eq!(scene.state.chosen().map(|it| it.id.pid.0), Some(300));
    let _ = scene.types("r");
    assert_eq!(scene.state.chosen().map(|it| it.id.pid.0), Some(300));
    let _ = scene.press(&[End]);
    assert_eq!(scene.state.cursor.at, 5);
    let _ = scene.press(&[Home, Up]);
    assert_eq!(scene.state.cursor.at, 0);
}

#[test]
fn a_bar_on_somebody_who_goes_stays_where_it_is() {
    let mut scene = Scene::after(3, SIZE);
    let place = |scene: &Scene| {
        let gone = |row: &Row| {
            matches!(row.of, Of::Process(at)
            if scene.state.news.rates.sample.processes[at].id.pid.0 == 100)
        };
        scene.state.rows.iter().position(gone)
    };
    let at = place(&scene).expect("it has just ended");
    scene.state.go(at);
    scene.read(1);
    assert_eq!(place(&scene), None);
    assert_eq!(scene.state.cursor.at, at.min(scene.state.rows.len() - 1));
    assert!(scene.state.chosen().is_some_and(|it| it.id.pid.0 != 100));
}

#[test]
fn a_low_screen_scrolls_with_the_bar() {
    let mut scene = Scene::after(2, (80, 10));
    let page = usize::from(scene.state.areas().expect("it fits").rows.height);
    assert!(page < scene.state.rows.len());
    let _ = scene.press(&[End]);
    assert_eq!(scene.state.cursor.top, scene.state.rows.len() - page);
    let _ = scene.press(&[Home]);
    assert_eq!(scene.state.cursor.top, 0);
}

#[test]
fn a_condition_holds_while_it_is_typed_and_esc_takes_it_back() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.types("/cpu > 50");
    names(&scene, "mpi_solver mpi_solver");
    let _ = scene.types(" and x");
    names(&scene, "");
    let _ = scene.press(&[Esc]);
    names(&scene, "mpi_solver mpi_solver mpirun systemd sshd bash");
}

#[test]
fn a_mistake_changes_nothing_and_cannot_be_entered() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.types("/comm ~ ssh");
    names(&scene, "sshd");
    let _ = scene.types(" or cpuu >");
    names(&scene, "sshd");
    let _ = scene.press(&[Enter]);
    let Panel::Prompt(prompt) = &scene.state.panel else { panic!("it is still being typed") };
    assert_eq!(prompt.fault().map(|fault| fault.at), Some(14));
    let _ = scene.press(&[Backspace; 10]);
    let _ = scene.press(&[Enter]);
    assert_eq!(scene.state.panel, Panel::None);
    let _ = scene.press(&[Esc]);
    assert_eq!(scene.state.view.condition, None);
}

#[test]
fn a_tree_has_children_below_their_parents() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.types("t");
    names(&scene, "systemd sshd bash mpirun mpi_solver mpi_solver");
    let depths: Vec<_> = scene.state.rows.iter().map(|row| row.stem.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3, 4, 4]);
    let _ = scene.types("/mpirun");
    names(&scene, "systemd sshd bash mpirun");
}

#[test]
fn groups_are_added_up_and_opened() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.types("guser");
    let _ = scene.press(&[Enter]);
    scene.read(2);
    names(&scene, "hpc root");
    let _ = scene.press(&[Enter]);
    assert_eq!(scene.state.view.condition.as_ref().map(|it| &*it.text), Some("user = \"hpc\""));
    scene.read(2);
    names(&scene, "mpi_solver mpi_solver mpirun bash make");
}

#[test]
fn columns_are_chosen_and_only_they_are_read() {
    let mut scene = Scene::after(1, SIZE);
    let before = scene.state.demand();
    assert!(!before.fields.contains(&ProcessField::Pss));
    let _ = scene.types("cpss_bytes ");
    let _ = scene.press(&[Esc]);
    assert!(scene.state.columns().contains(&ProcessField::Pss));
    assert!(scene.state.demand().fields.contains(&ProcessField::Pss));
    assert_eq!(scene.state.columns().last(), Some(&ProcessField::Comm));
    let _ = scene.types("cpss_bytes ");
    assert!(!scene.state.columns().contains(&ProcessField::Pss));
}

#[test]
fn an_act_is_asked_about_and_done_only_after_a_clear_yes() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.press(&[Down]);
    assert_eq!(scene.types("kterm"), None);
    assert_eq!(scene.press(&[Enter]), None);
    let Panel::Ask(act) = &scene.state.panel else { panic!("it asks") };
    assert_eq!(act.question(), "send SIGTERM to process 302 (mpi_solver)");
    assert_eq!(scene.press(&[Enter]), None, "Enter is no clear yes");
    assert_eq!(scene.state.said.as_deref(), Some("nothing was done"));
    let _ = scene.types("x");
    let Some(Effect::Act(act)) = scene.types("y") else { panic!("it is done") };
    assert_eq!((act.id.pid.0, act.what), (302, What::Signal(19)));
}

#[test]
fn a_nice_value_is_typed_and_asked_about() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.press(&[Down, Up]);
    let _ = scene.types("n");
    let Panel::Prompt(prompt) = &scene.state.panel else { panic!("it is typed") };
    assert_eq!(prompt.text, "5", "what it is now");
    let _ = scene.press(&[Backspace]);
    let _ = scene.types("19");
    let _ = scene.press(&[Enter]);
    let Some(Effect::Act(act)) = scene.types("y") else { panic!("it is done") };
    assert_eq!((act.id.pid.0, act.what), (301, What::Nice(19)));
}

#[test]
fn a_rule_is_typed_seen_in_the_details_and_removed_from_a_list() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.press(&[Down]);
    assert_eq!(scene.types("W"), None);
    assert!(scene.state.said.as_deref().is_some_and(|it| it.starts_with("nothing is watched")));
    let _ = scene.types("wMPI_Send");
    let Some(Effect::Rule(Order::Start { id, event, .. })) = scene.press(&[Enter]) else {
        panic!("it is started")
    };
    assert_eq!((id.pid.0, event.as_str()), (302, "call MPI_Send"));
    assert_eq!(scene.state.tab, Some(Tab::Rules));
    let _ = scene.state.take(Input::Told(Told::Rules(rules())));
    let _ = scene.types("Wsignal");
    assert_eq!(scene.press(&[Enter]), Some(Effect::Rule(Order::Remove(2))));
}

#[test]
fn nobody_can_act_on_one_who_has_ended_or_on_a_group() {
    let mut scene = Scene::after(3, SIZE);
    let gone = scene.state.rows.iter().position(|row| row.mark == Mark::Gone).expect("one");
    scene.state.go(gone);
    let _ = scene.types("k");
    assert_eq!(scene.state.panel, Panel::None);
    assert_eq!(scene.state.said.as_deref(), Some("this process has ended"));
    let _ = scene.types("guser");
    let _ = scene.press(&[Enter]);
    scene.read(1);
    let _ = scene.types("x");
    assert!(scene.state.said.as_deref().is_some_and(|it| it.starts_with("a group")));
}

#[test]
fn what_stands_still_keeps_its_reading_and_asks_for_none() {
    let mut scene = Scene::after(2, SIZE);
    let at = scene.state.news.rates.sample.at;
    let _ = scene.types(" ");
    assert!(scene.state.demand().frozen);
    scene.read(1);
    assert_eq!(scene.state.news.rates.sample.at, at);
    let _ = scene.types(" ");
    scene.read(1);
    assert_ne!(scene.state.news.rates.sample.at, at);
}

#[test]
fn details_follow_their_process_and_name_the_page() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.press(&[Down, Enter]);
    let focus = scene.state.demand().focus.map(|(id, tab)| (id.pid.0, tab));
    assert_eq!(focus, Some((302, Tab::Overview)));
    let _ = scene.press(&[TabKey, TabKey, TabKey, TabKey]);
    assert_eq!(scene.state.tab, Some(Tab::Threads));
    assert!(scene.state.demand().threads());
    let _ = scene.press(&[TabKey]);
    assert_eq!(scene.state.tab, Some(Tab::Rules));
    let _ = scene.press(&[TabKey]);
    assert_eq!(scene.state.tab, Some(Tab::Overview));
    let _ = scene.press(&[Esc]);
    assert_eq!(scene.state.demand().focus, None);
}

#[test]
fn the_pace_has_its_limits() {
    let mut scene = Scene::new(80, 24);
    let _ = scene.types("----------");
    assert_eq!(scene.state.demand().every, PACE[1]);
    let _ = scene.types("++++++++++++");
    assert_eq!(scene.state.demand().every, PACE[0]);
}

#[test]
fn too_small_a_terminal_recovers() {
    let mut scene = Scene::after(2, SIZE);
    let _ = scene.state.take(Input::Resize(Size { width: 20, height: 4 }));
    assert_eq!(scene.state.areas(), None);
    let _ = scene.press(&[Down, Char('s'), Esc]);
    let _ = scene.state.take(Input::Resize(Size { width: 80, height: 24 }));
    assert!(scene.state.areas().is_some() && scene.state.cursor.at == 1);
}

#[test]
fn a_click_chooses_a_row_sorts_and_presses_keys() {
    let mut scene = Scene::after(2, SIZE);
    let areas = scene.state.areas().expect("it fits");
    let _ = scene.click(5, areas.rows.y + 2);
    assert_eq!(scene.state.chosen().map(|it| it.id.pid.0), Some(300));
    let _ = scene.click(5, areas.rows.y + 2);
    assert_eq!(scene.state.tab, Some(Tab::Overview));
    let _ = scene.click(5, areas.titles.y);
    assert_eq!(scene.state.view.order.field, ProcessField::Pid);
    let _ = scene.click(1, areas.foot.y);
    assert_eq!(scene.state.panel, Panel::Help(0));
    let _ = scene.click(1, 1);
    assert_eq!(scene.state.panel, Panel::None);
}

#[test]
fn a_plain_list_asks_a_daemon_for_the_first_rows_only() {
    let mut scene = Scene::after(1, SIZE);
    assert_eq!(scene.state.demand().top, Some(512));
    let _ = scene.types("t");
    assert_eq!(scene.state.demand().top, None);
}
