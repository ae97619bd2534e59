//! A recording as Parquet: exactly the same cells as in CSV.

use super::{printed, run, text};
use crate::served::Folder;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A cell as CSV writes it, rounded to three decimals.
fn cell(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Bool(yes) => yes.to_string(),
        Field::Long(n) => n.to_string(),
        Field::ULong(n) => n.to_string(),
        Field::Double(x) => format!("{}", (x * 1e3).round() / 1e3),
        Field::Str(text) => text.clone(),
        other => panic!("no field has the type of {other:?}"),
    }
}

fn rows(path: &Path) -> Vec<Vec<String>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let names = schema.columns().iter().map(|it| it.name().to_owned()).collect();
    let cells = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        row.get_column_iter().map(|(_, field)| cell(field)).collect()
    });
    std::iter::once(names).chain(cells).collect()
}

/// Splits CSV lines; the test backend needs no quotes.
fn lines(csv: &str) -> Vec<Vec<String>> {
    csv.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// A recording of 23 samples.
fn recorded() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["record", text(&file), "--local", "--backend", "test", "--every", "10ms"];
    printed(&[&args[..], &["--count", "23"]].concat());
    (folder, file)
}

#[test]
fn every_cell_is_the_same_as_in_csv() {
    let (folder, file) = recorded();
    for part in [&["proc"][..], &["node"], &["disk"], &["net"], &["proc", "--group-by", "user"]] {
        let to = folder.join("p");
        let export = [&["export", text(&file)], part].concat();
        let csv = printed(&[&export[..], &["--format", "csv"]].concat());
        printed(&[&export[..], &["--format", "parquet", "--output", text(&to)]].concat());
        let (got, want) = (rows(&to), lines(&csv));
        assert_eq!(got, want, "{part:?}");
        assert!(got.len() >= 23, "{part:?}");
    }
}

#[test]
fn a_scope_with_several_kinds_of_rows_is_refused() {
    let (_folder, file) = recorded();
    let got = run(&["export", text(&file), "all", "--format", "parquet"]);
    let stderr = String::from_utf8_lossy(&got.stderr);
    assert!(stderr.contains("parquet needs rows of one kind"), "{stderr}");
}
