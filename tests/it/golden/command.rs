//! The command line: every command, every option of it, and the words that an option takes.
//!
//! Read out of the completions for bash, which clap writes from the definition of the command line.
//! Hidden commands are not listed there, so they are not frozen.

use super::{check, printed};

/// The words of the quoted list after `mark`, sorted.
fn quoted<'a>(text: &'a str, mark: &str) -> Option<Vec<&'a str>> {
    let rest = text.split_once(mark)?.1;
    let mut words: Vec<_> = rest.split_once('"')?.0.split_whitespace().collect();
    words.sort_unstable();
    Some(words)
}

/// One command of the completions, with its options and their values.
fn command(name: &str, branch: &str) -> String {
    let words = quoted(branch, "opts=\"").expect("a command has words").join(" ");
    let mut out = format!("{name}\n  {words}\n");
    for option in branch.split(";;").filter(|it| it.contains("compgen -W \"") && it.contains("--"))
    {
        let lines = option.lines().map(str::trim);
        let name = lines.filter(|line| line.starts_with('-')).find_map(|it| it.strip_suffix(')'));
        let list = option.rsplit_once("compgen -W ").map_or("", |(_, list)| list);
        let values = quoted(list, "\"").filter(|it| !it.contains(&"${opts}"));
        if let (Some(name), Some(values)) = (name, values) {
            // `json/fields.txt` lists the fields.
            let values =
                if values.contains(&"cpu_ns") { "a field".into() } else { values.join(" ") };
            out += &format!("  {name}: {values}\n");
        }
    }
    out
}

#[test]
fn every_command_has_its_options_and_their_values() {
    let text = printed(&["completions", "bash"]);
    let mut found = Vec::new();
    let cases = text.rsplit_once("case \"${cmd}\" in").expect("the branches").1;
    let mut branch: Option<(String, String)> = None;
    for line in cases.lines() {
        let head = line.strip_prefix("        ").filter(|it| !it.starts_with(' '));
        let head = head.and_then(|it| it.strip_suffix(')')).filter(|it| it.starts_with("monitor"));
        match head {
            Some(name) => {
                found.extend(branch.take());
                let name = name.replace("__subcmd__", " ");
                branch = Some((name, String::new()));
            }
            None => {
                if let Some((_, text)) = &mut branch {
                    *text += line;
                    text.push('\n');
                }
            }
        }
    }
    found.extend(branch);
    // `help` has a copy of each command.
    found.retain(|(name, _)| !name.split(' ').any(|it| it == "help"));
    found.sort();
    let out: String = found.iter().map(|(name, text)| command(name, text)).collect();
    check("command/options.txt", &out);
}

#[test]
fn every_command_has_a_manual_page_by_its_name() {
    let folder = crate::served::Folder::new();
    let _text = printed(&["man", folder.path().to_str().unwrap()]);
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap() + "\n").collect();
    names.sort();
    check("command/manual.txt", &names.concat());
}
