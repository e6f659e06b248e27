//! The terminal twin of the pages (dashboard spec, chapter 17): rows of the read model in, a frame
//! out.
//!
//! [`frame_run`] and [`frame_overview`] are pure; [`Terminal`] puts frames on the screen and gives
//! the terminal back as it was.

mod chart;
mod line;
mod look;
mod overview;
mod run;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

pub(crate) use look::Look;
pub(crate) use overview::frame_overview;
pub(crate) use run::{Ask, Pane, Screen, frame_run};
pub(crate) use terminal::{Key, Terminal, print};

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

/// Below this size only the first three lines of a frame are shown.
pub(crate) const SMALLEST: Size = Size {
    columns: 60,
    rows: 16,
};

impl Size {
    /// Returns the size of the terminal, or what stands for one that is printed to.
    pub(crate) fn now() -> Self {
        let env = |name: &str| std::env::var(name).ok()?.parse().ok();
        let seen = std::io::stdout()
            .is_terminal()
            .then(|| ratatui::crossterm::terminal::size().ok());
        let (columns, rows) = seen
            .flatten()
            .unwrap_or((env("COLUMNS").unwrap_or(100), env("LINES").unwrap_or(30)));
        Self { columns, rows }
    }

    /// Returns whether there is room for more than three lines.
    pub(crate) const fn is_enough(self) -> bool {
        self.columns >= SMALLEST.columns && self.rows >= SMALLEST.rows
    }
}
