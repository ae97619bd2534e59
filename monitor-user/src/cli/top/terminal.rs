//! The terminal of a screen: its colours, and that it cannot be used.
//!
//! In: arguments and variables of the environment. Out: a theme; an error as a failure.

use super::args::TopArgs;
use crate::cli::exit::Failure;
use monitor_tui::theme::{Palette, Theme};

/// The failure of a terminal.
pub fn cannot(error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

/// Theme from the arguments, else from the environment; ASCII if the locale is not UTF-8.
pub fn theme_of(args: &TopArgs) -> Theme {
    let var = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let theme = match args.theme.as_str() {
        "dark" => Palette::Dark,
        "light" => Palette::Light,
        "plain" => Palette::Plain,
        _ if var("NO_COLOR").is_some() || var("TERM").as_deref() == Some("dumb") => Palette::Plain,
        _ => background(var("COLORFGBG").as_deref()),
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(var).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    let ascii = args.ascii || !(locale.contains("utf-8") || locale.contains("utf8"));
    Theme { palette: theme, ascii }
}

/// Theme from `COLORFGBG`, which ends with the background colour: 7 and 15 are white.
fn background(colours: Option<&str>) -> Palette {
    match colours.and_then(|it| it.rsplit(';').next()) {
        Some("7" | "15") => Palette::Light,
        _ => Palette::Dark,
    }
}
