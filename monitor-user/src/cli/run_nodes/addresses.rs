//! Where each node serves its files, as options name it.

use monitor_cluster::node_set::expand_patterns;
use monitor_remote::Address;
use std::collections::BTreeMap;

/// Addresses by the name of the node.
pub type Addresses = BTreeMap<String, Address>;

/// The addresses of options of the form `NAME=PATH`; the last one for a name counts. Both sides may
/// be sets of the same number: `n[1-3]=/run/n[1-3].9p`.
///
/// # Errors
///
/// When an option has another form; the text says why.
pub fn addresses(options: &[String]) -> Result<Addresses, String> {
    let mut all = Addresses::new();
    for option in options.iter().filter(|it| !it.is_empty()) {
        let (names, paths) =
            option.split_once('=').ok_or_else(|| format!("{option:?}: expected NAME=PATH"))?;
        let expanded = |text| expand_patterns(text).map_err(|error| error.to_string());
        let (names, paths) = (expanded(names)?, expanded(paths)?);
        if names.len() != paths.len() {
            let (names, paths) = (names.len(), paths.len());
            return Err(format!("{option:?} has {names} names and {paths} paths"));
        }
        for (name, path) in names.into_iter().zip(paths) {
            let _replaced = all.insert(name, socket(&path)?);
        }
    }
    Ok(all)
}

/// The path of a socket: a session has a user, which no other address says.
fn socket(written: &str) -> Result<Address, String> {
    match written.parse()? {
        Address::Tcp(_) | Address::Tls(_) => Err(format!(
            "{written}: no user is known there, so that no program is executed: name the Unix \
             socket of the node, which ssh -L forwards"
        )),
        path @ Address::Unix(_) => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(options: &[&str]) -> Result<Vec<(String, String)>, String> {
        let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        let all = addresses(&options)?;
        Ok(all.into_iter().map(|(name, it)| (name, it.to_string())).collect())
    }

    #[test]
    fn a_name_has_the_last_of_its_addresses() {
        let pair = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        let want = [pair("m", "/m"), pair("n1", "/other"), pair("n2", "/run/n2.9p")];
        let got = all(&["n[1-2]=/run/n[1-2].9p", "m=/m", "n1=/other", ""]);
        assert_eq!(got.as_deref(), Ok(&want[..]));
        for option in ["n1", "n1=", "=/a", "n1=a", "n[1-2]=/a", "n1=/a,/b"] {
            assert!(all(&[option]).is_err(), "{option}");
        }
        for address in ["tls!n1!5641", "tcp!127.0.0.1!5640"] {
            let why = all(&[&format!("n1={address}")]).expect_err("no user is known there");
            assert!(why.starts_with(&format!("{address}: no user is known there")), "{why}");
        }
    }
}
