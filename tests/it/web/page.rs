//! The page in a browser: it loads, updates, sorts, filters, and shows a process that the test
//! starts, without errors on its console.

use super::browser::Browser;
use super::get::Web;
use crate::root::privilege::granted;
use std::process::{Child, Command, Stdio};

/// A busy process that ends with the test.
pub struct Busy(pub Child);

impl Busy {
    /// Starts it with a nice value that gives it some percent of a processor beside busy loops.
    pub fn start() -> Self {
        let busy_loop = "while :; do :; done";
        let mut command = Command::new("nice");
        command.args(["-n", "5", "sh", "-c", busy_loop, "busy-for-the-page"]);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An expression for the texts of a column.
fn column(title: &str) -> String {
    format!(
        "(() => {{ const at = [...document.querySelectorAll('#scroll th')]\
         .findIndex((it) => it.textContent === '{title}');\
         return [...document.querySelectorAll('#scroll tbody tr[data-key]')]\
         .map((it) => it.cells[at].textContent) }})()"
    )
}

/// Opens the page with the token and waits until it is live; `None` without a browser.
pub fn opened(test: &str, web: &Web) -> Option<Browser> {
    let token = web.token().replace("Authorization: Bearer ", "");
    let mut browser = Browser::open(test, &format!("http://{}/#token={token}", web.address))?;
    browser.until(LIVE);
    Some(browser)
}

/// Waits for the next sample.
fn tick(browser: &mut Browser) {
    let before = browser.value("document.getElementById('state').textContent");
    browser.until(&format!("document.getElementById('state').textContent !== {before}"));
}

pub const LIVE: &str = "document.getElementById('state')?.dataset.state === 'live'";

fn search(browser: &mut Browser, condition: &str) {
    let set = format!(
        "(() => {{ const it = document.getElementById('words'); it.value = {condition:?};\
         it.dispatchEvent(new Event('input')); return true }})()"
    );
    let _ = browser.value(&set);
}

#[test]
fn root_the_page_shows_a_started_process_and_the_error_in_a_filter() {
    const TEST: &str = "root_the_page_shows_a_started_process_and_the_error_in_a_filter";
    if !granted(TEST) {
        return;
    }
    let web = Web::reading("", "ebpf");
    let Some(mut browser) = opened(TEST, &web) else { return };
    assert_eq!(browser.value("location.hash"), "");
    assert_eq!(browser.value("document.getElementById('backend').textContent"), "ebpf");
    let busy = Busy::start();
    search(&mut browser, "busy-for-the-page and cpu > 1");
    browser.until(&format!("{}.length === 1", column("PID")));
    assert_eq!(browser.value(&format!("{}[0]", column("PID"))), busy.0.id().to_string());
    browser.picture("filtered-light");
    let shown = browser.value("document.getElementById('count').textContent");
    assert!(shown.as_str().unwrap().starts_with("1 of "), "{shown}");
    search(&mut browser, "cpu>x");
    browser.until("document.getElementById('wrong').textContent !== ''");
    let wrong = browser.value("document.getElementById('wrong').textContent");
    assert!(wrong.as_str().unwrap().starts_with("cpu>x\n    ^ "), "{wrong}");
    // The previous condition stays active.
    assert_eq!(browser.value(&format!("{}.length", column("PID"))), 1);
    details(&mut browser, busy);
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// Selects the only matching process with keys.
pub fn open_details(browser: &mut Browser, condition: &str) {
    search(browser, condition);
    browser.until(&format!("{}.length === 1", column("PID")));
    let _ = browser.value("document.getElementById('scroll').focus()");
    browser.key("ArrowDown");
    browser.key("Enter");
}

/// Checks that the details appear, and show the end of the process.
fn details(browser: &mut Browser, busy: Busy) {
    open_details(browser, "busy-for-the-page");
    browser.until("document.querySelectorAll('#details dd').length > 30");
    browser.until("document.querySelectorAll('#details canvas').length === 3");
    let title = browser.value("document.querySelector('#details h2').textContent");
    assert_eq!(title, format!("sh, process {}", busy.0.id()));
    search(browser, "");
    browser.theme("dark");
    (0..3).for_each(|_| tick(browser));
    browser.picture("details-dark");
    drop(busy);
    browser.until("document.querySelector('#details [role=status]').textContent.includes('ended')");
    browser.key("Escape");
    browser.until("document.getElementById('details').hidden");
}

#[test]
fn root_the_page_sorts_updates_and_shows_latencies_probes_and_cost() {
    const TEST: &str = "root_the_page_sorts_updates_and_shows_latencies_probes_and_cost";
    if !granted(TEST) {
        return;
    }
    let web = Web::reading("", "ebpf");
    let Some(mut browser) = opened(TEST, &web) else { return };
    tick(&mut browser);
    let _ = browser.value("document.querySelector('th[data-name=pid] button').click()");
    let pids = browser.value(&column("PID"));
    let pids: Vec<u32> = pids.as_array().unwrap().iter().map(number).collect();
    assert!(pids.len() > 5 && pids.is_sorted(), "{pids:?}");
    let _ = browser.value("document.querySelector('th[data-name=pid] button').click()");
    browser.until(&format!(
        "{}.map(Number).every((it, at, all) => !at || it <= all[at - 1])",
        column("PID")
    ));
    let _ = browser.value("document.querySelector('th[data-name=cpu_percent] button').click()");
    browser.picture("processes-light");
    browser.size(800, 700);
    browser.picture("processes-800");
    browser.size(1280, 800);
    browser.key("2");
    let captions = "[...document.querySelectorAll('#latency figcaption')]";
    browser.until(&format!("{captions}.some((it) => /[1-9]/.test(it.textContent))"));
    browser.theme("dark");
    (0..2).for_each(|_| tick(&mut browser));
    browser.picture("latency-dark");
    browser.key("3");
    browser.until("document.querySelectorAll('#monitors tbody tr').length >= 1");
    browser.picture("monitors-dark");
    browser.key("4");
    browser.until("document.getElementById('service').textContent.includes('tp_btf/')");
    browser.theme("light");
    browser.picture("service-light");
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn the_latency_panel_says_why_it_counts_nothing() {
    let web = Web::reading("", "procfs");
    let Some(mut browser) = opened("the_latency_panel", &web) else { return };
    browser.key("2");
    browser.until(&captions("['no block', 'no block', 'no run-queue']"));
    browser.picture("latency-without-ebpf");
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// Whether the captions of the latency panel begin with these texts.
pub fn captions(wanted: &str) -> String {
    format!(
        "{wanted}.every((text, at) => document.querySelectorAll('#latency figcaption')[at]\
         ?.textContent.startsWith(text))"
    )
}

fn number(text: &serde_json::Value) -> u32 {
    text.as_str().unwrap().parse().unwrap()
}

#[test]
fn without_the_token_the_page_says_so_and_a_wrong_one_is_dropped() {
    let web = Web::with("");
    let address = format!("http://{}/#token=0123456789abcdef0123456789abcdef", web.address);
    let Some(mut browser) = Browser::open("without_the_token", &address) else { return };
    browser.until(LIVE);
    assert_eq!(browser.value("document.getElementById('access').hidden"), false);
    assert_eq!(browser.value("sessionStorage.getItem('monitor-token')"), serde_json::Value::Null);
    browser.picture("anonymous");
    // The only error is that the wrong token was refused.
    assert!(browser.errors.iter().all(|it| it.contains("401")), "{:?}", browser.errors);
}
