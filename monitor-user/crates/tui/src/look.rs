//! How things look: colours for light and dark terminals or none, and signs for those without
//! Unicode.
//!
//! Only the sixteen colours of the terminal's own palette are used, and colour is never the only
//! sign of anything.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;

/// The colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// For a dark background.
    #[default]
    Dark,
    /// For a light one.
    Light,
    /// None.
    Plain,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Anything.
    Text,
    /// What can be spared.
    Dim,
    /// A heading.
    Title,
    /// A name beside a number, a key, an open page.
    Accent,
    /// Little of something.
    Low,
    /// Much of it.
    High,
    /// Nearly all of it, or a mistake.
    Full,
    /// A row that has just come.
    New,
    /// A row that has ended.
    Gone,
    /// The row under the bar.
    Chosen,
}

/// Colours and signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// Whether the terminal is not of UTF-8.
    pub ascii: bool,
}

impl Look {
    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        let colour = |dark, light| match self.theme {
            Theme::Dark => plain.fg(dark),
            Theme::Light => plain.fg(light),
            Theme::Plain => plain,
        };
        match role {
            Role::Text => plain,
            Role::Dim => match self.theme {
                Theme::Plain => plain,
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

    /// Signs of a bar from empty to full.
    pub const fn levels(self) -> bar::Set<'static> {
        if self.ascii { ASCII_LEVELS } else { bar::NINE_LEVELS }
    }

    /// What a bar is filled with, and what is left of it.
    pub const fn filling(self) -> [&'static str; 2] {
        if self.ascii { ["|", "."] } else { ["━", "─"] }
    }

    /// The line of a tree: a child, the last child, past a parent with more, past one without.
    pub const fn branches(self) -> [&'static str; 4] {
        if self.ascii {
            ["|- ", "`- ", "|  ", "   "]
        } else {
            ["├─ ", "└─ ", "│  ", "   "]
        }
    }

    /// What parts two things on a line.
    pub const fn divider(self) -> &'static str {
        if self.ascii { " | " } else { " │ " }
    }

    /// Which way a column is sorted: the largest or the smallest first.
    pub const fn arrows(self) -> [&'static str; 2] {
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
