//! Lines of a frame, put together piece by piece and cut at the edge.

use ratatui::text::{Line, Span};
use skillopt_coordinator::read_model::harmless;

use super::look::{Look, Role};

/// Most characters of a piece that are looked at: more than any terminal has columns.
const PIECE_MAX: usize = 2_000;

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Vec<(Role, String)>);

impl Row {
    /// A line of one piece.
    pub(crate) fn of(role: Role, text: &str) -> Self {
        Self::default().put(role, text)
    }

    /// Adds a piece; whatever it says, it stays on this line and commands nothing.
    pub(crate) fn put(mut self, role: Role, text: &str) -> Self {
        let end = text.char_indices().nth(PIECE_MAX).map(|(at, _)| at);
        self.0
            .push((role, harmless(&text[..end.unwrap_or(text.len())])));
        self
    }

    /// Adds a piece if there is any text, with blanks before it.
    pub(crate) fn also(self, role: Role, text: &str) -> Self {
        if text.is_empty() {
            self
        } else {
            self.put(Role::Ink, "   ").put(role, text)
        }
    }

    /// Adds another line's pieces.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds blanks up to a column.
    pub(crate) fn to(self, column: usize) -> Self {
        let blanks = column.saturating_sub(self.width());
        self.put(Role::Ink, &" ".repeat(blanks))
    }

    /// Adds a piece at the right edge; the line is cut if there is no room for both.
    pub(crate) fn right(self, role: Role, text: &str, columns: usize) -> Self {
        let start = columns.saturating_sub(width(text));
        let fits = self.width() < start;
        let mut cut = if fits {
            self
        } else {
            self.cut(start.saturating_sub(1))
        };
        cut = cut.to(start);
        cut.put(role, text)
    }

    /// Returns the columns that it takes.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// Cuts it to so many columns; `…` says that something is missing.
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut pieces = Vec::new();
        for (role, text) in self.0 {
            let mut piece = String::new();
            let mut is_full = false;
            for c in text.chars() {
                let wide = width(c.encode_utf8(&mut [0; 4]));
                if wide > left {
                    is_full = true;
                    break;
                }
                left -= wide;
                piece.push(c);
            }
            pieces.push((role, piece));
            if is_full {
                break;
            }
        }
        if columns > 0 {
            pieces.push((Role::Faint, "…".to_owned()));
        }
        Self(pieces)
    }

    /// Returns it as it is drawn.
    pub(crate) fn drawn(self, columns: usize, look: Look) -> Line<'static> {
        let plain = self.0.into_iter().map(|(role, t)| (role, look.text(&t)));
        let cut = Self(plain.collect()).cut(columns);
        let spans = cut
            .0
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(role, text)| Span::styled(look.text(&text), look.style(role)));
        Line::from_iter(spans)
    }
}

/// Returns the columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        has_colour: false,
        has_unicode: true,
    };

    fn drawn(row: Row, columns: usize) -> String {
        row.drawn(columns, LOOK).to_string()
    }

    #[test]
    fn lines_are_cut_and_never_longer() {
        for (text, columns, want) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("abc", 0, ""),
            ("a\nb\x1b[2J", 20, "a b⟨U+001B⟩[2J"),
        ] {
            assert_eq!(drawn(Row::of(Role::Ink, text), columns), want);
        }
    }

    #[test]
    fn the_right_piece_is_always_seen() {
        for (text, want) in [
            ("short", "short      14:32"),
            ("a name that is long", "a name th… 14:32"),
        ] {
            let row = Row::of(Role::Ink, text).right(Role::Faint, "14:32", 16);
            assert_eq!(drawn(row, 16), want);
        }
    }
}
