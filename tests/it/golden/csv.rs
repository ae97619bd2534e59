//! Every header of CSV: one for each kind of row, and for groups.

use super::{check, printed};

#[test]
fn every_kind_of_row_has_its_header() {
    let forms: [&[&str]; 8] = [
        &["proc"],
        &["proc", "--threads"],
        &["node"],
        &["disk"],
        &["net"],
        &["proc", "--fields", "pid,user,job,pss_bytes"],
        &["proc", "--group-by", "user"],
        &["proc", "--group-by", "job", "--fields", "cpu_ns,pss_bytes"],
    ];
    let mut out = String::new();
    for words in forms {
        let all = [&["sample", "--backend", "test", "--format", "csv"], words].concat();
        let text = printed(&all);
        let header = text.lines().next().unwrap().replace(',', "\n  ");
        out += &format!("{}\n  {header}\n", words.join(" "));
    }
    check("csv/headers.txt", &out);
}
