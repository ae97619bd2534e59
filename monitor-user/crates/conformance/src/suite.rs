//! The cases that the program contains: the files of tests/request/conformance.

use super::case::{self, Case};

macro_rules! embedded {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../tests/request/conformance/", $name)))
    };
}

/// The name and the text of each file, in the order of the sections.
const FILES: &[(&str, &str)] = &[
    embedded!("5-interface.txt"),
    embedded!("6-extensions.txt"),
    embedded!("7-syntax.txt"),
    embedded!("8-services.txt"),
    embedded!("8.1.1-processes.txt"),
    embedded!("8.1.2-messages.txt"),
    embedded!("8.1.3-hardware.txt"),
    embedded!("8.1.4-parallel-io.txt"),
    embedded!("8.2-monitor-objects.txt"),
];

/// All cases, file by file.
pub fn suite() -> Vec<Case> {
    let all = FILES.iter().map(|(name, text)| case::parse(name, text));
    all.flat_map(|cases| cases.expect("a test parses each file")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Evidence;
    use crate::step::steps;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/request/conformance");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, FILES.iter().map(|it| it.0).collect::<Vec<_>>());
    }

    #[test]
    fn every_case_without_a_need_can_be_run_through_a_socket() {
        for case in suite().iter().filter(|case| case.is_portable()) {
            assert!(steps(case).is_ok(), "{:?}", steps(case));
        }
    }

    #[test]
    fn every_named_test_exists() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
        for sentence in suite().into_iter().flat_map(|case| case.sentences) {
            let Evidence::Test(test) = sentence.evidence else { continue };
            let (file, name) = test.split_once(' ').expect("a file and a name");
            let text = std::fs::read_to_string(format!("{root}{file}")).expect(file);
            assert!(text.contains(&format!("fn {name}(")), "{test}");
        }
    }

    #[test]
    fn no_sentence_is_in_two_places() {
        let mut texts: Vec<(String, String)> = Vec::new();
        for case in suite() {
            texts.extend(case.sentences.into_iter().map(|it| (it.section, it.text)));
        }
        let n_all = texts.len();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), n_all);
    }
}
