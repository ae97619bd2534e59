//! Colours for dark and light terminals or none, and symbols for terminals with and without
//! Unicode.
//!
//! Only the 16 colours of the terminal's palette are used, and no information is shown by colour
//! alone.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;

/// The set of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light one.
    Light,
    /// No colours.
    Plain,
}

/// The role of a text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Normal text.
    Text,
    /// Secondary text.
    Dim,
    /// A heading.
    Title,
    /// The name of a value, a key, a page.
    Accent,
    /// A low share.
    Low,
    /// A high share.
    High,
    /// A share near 1, or an error.
    Full,
    /// The row of a new process.
    New,
    /// The row of an ended process.
    Gone,
    /// The selected row.
    Chosen,
}

/// Colours and symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// The set of colours.
    pub palette: Palette,
    /// Whether the terminal does not use UTF-8.
    pub ascii: bool,
}

impl Theme {
    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        let colour = |dark, light| match self.palette {
            Palette::Dark => plain.fg(dark),
            Palette::Light => plain.fg(light),
            Palette::Plain => plain,
        };
        match role {
            Role::Text => plain,
            Role::Dim => match self.palette {
                Palette::Plain => plain,
                _ => plain.add_modifier(Modifier::DIM),
            },
            Role::Title => plain.add_modifier(Modifier::BOLD),
            Role::Accent => colour(Color::Cyan, Color::Blue),
            Role::Low => colour(Color::Green, Color::Green),
            Role::High => colour(Color::Yellow, Color::Magenta),
            Role::Full => colour(Color::LightRed, Color::Red).add_modifier(Modifier::BOLD),
            Role::New => colour(Color::LightGreen, Color::Green),
            Role::Gone => plain.add_modifier(Modifier::DIM),
            Role::Chosen => plain.add_modifier(Modifier::REVERSED),
        }
    }

    /// The role of a share, from 0 to 1.
    pub fn level(share: f64) -> Role {
        match share {
            ..0.6 => Role::Low,
            ..0.9 => Role::High,
            _ => Role::Full,
        }
    }

    /// Symbols of a sparkline, from empty to full.
    pub const fn spark_symbols(self) -> bar::Set<'static> {
        if self.ascii { ASCII_LEVELS } else { bar::NINE_LEVELS }
    }

    /// Symbols of the filled and the empty part of a bar.
    pub const fn bar_symbols(self) -> [&'static str; 2] {
        if self.ascii { ["|", "."] } else { ["━", "─"] }
    }

    /// Symbols of a tree: a child, the last child, an ancestor with further children, one without.
    pub const fn tree_symbols(self) -> [&'static str; 4] {
        if self.ascii {
            ["|- ", "`- ", "|  ", "   "]
        } else {
            ["├─ ", "└─ ", "│  ", "   "]
        }
    }

    /// The separator of two values in a line.
    pub const fn divider(self) -> &'static str {
        if self.ascii { " | " } else { " │ " }
    }

    /// Symbols of the order: descending, ascending.
    pub const fn sort_symbols(self) -> [&'static str; 2] {
        if self.ascii { ["v", "^"] } else { ["▼", "▲"] }
    }
}

const ASCII_LEVELS: bar::Set<'static> = bar::Set {
    empty: " ",
    one_eighth: ".",
    one_quarter: ".",
    three_eighths: ":",
    half: ":",
    five_eighths: "+",
    three_quarters: "+",
    seven_eighths: "#",
    full: "#",
};
