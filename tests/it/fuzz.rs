//! What the fuzzer checks (`tests/fuzz`), over bytes and pieces of requests in the ordinary run.

#[path = "../fuzz/line.rs"]
mod line;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngSeed};
use proptest::{proptest, sample};

const PIECES: &[&str] = &[
    "10 ",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ": ",
    "$1",
    "$0",
    "\"a\\n\"",
    "-",
    "1.5e3",
    "0x7f",
    "nan",
    "p_1_2",
    "#2:beef",
    "stop",
    "process_info",
    " ",
    "\n",
    "é",
];

fn config() -> Config {
    Config {
        cases: 2000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1996),
        ..Config::default()
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = sample::select(PIECES).prop_map(|it| it.as_bytes().to_vec());
    vec(prop_oneof![4 => piece, 1 => vec(any::<u8>(), 0..4)], 0..24).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_line_is_read_or_refused_and_read_again_the_same(bytes in bytes()) {
        line::check(&bytes);
    }
}

#[test]
fn every_case_of_the_language_keeps_the_invariants() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/request/language");
    let mut n_lines = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        for text in std::fs::read(entry.unwrap().path()).unwrap().split(|it| *it == b'\n') {
            line::check(text.get(2..).unwrap_or_default());
            n_lines += 1;
        }
    }
    assert!(n_lines > 100, "{n_lines}");
}
