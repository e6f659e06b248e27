//! Colours and characters that a terminal has.

use ratatui::style::{Color, Modifier, Style};
use skillopt_coordinator::read_model::Verdict;

/// What a colour says; it never stands alone (dashboard spec, chapter 14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Plain text.
    #[default]
    Ink,
    /// Headings.
    Strong,
    /// What matters less.
    Faint,
    /// Better than before, or well.
    Better,
    /// Worse than before.
    Worse,
    /// Nobody knows.
    Unsure,
    /// The surroundings failed.
    Infra,
    /// Somebody is needed.
    Warn,
}

impl Role {
    /// Returns the role of a verdict.
    pub(crate) const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Accepted => Self::Better,
            Verdict::Refused => Self::Worse,
            Verdict::CannotTell => Self::Unsure,
            Verdict::Skipped | Verdict::TakenWithoutGate => Self::Ink,
        }
    }
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Colours, of the 16 that every terminal has: the person has chosen how they look.
    pub(crate) has_colour: bool,
    /// Characters beyond ASCII.
    pub(crate) has_unicode: bool,
}

impl Look {
    /// Returns what the terminal can show, as far as its environment says.
    pub(crate) fn of(has_colour: bool, is_ascii: bool) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
        Self {
            has_colour,
            has_unicode: !is_ascii && is_utf8(locale.as_deref()),
        }
    }

    /// Returns the style of a role.
    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        match role {
            Role::Ink => style,
            Role::Strong => style.add_modifier(Modifier::BOLD),
            Role::Faint => style.add_modifier(Modifier::DIM),
            _ if !self.has_colour => style,
            // Blue and red are told apart by nearly everybody, green and red are not.
            Role::Better => style.fg(Color::Blue),
            Role::Worse => style.fg(Color::Red),
            Role::Unsure => style.fg(Color::DarkGray),
            Role::Infra => style.fg(Color::Magenta),
            Role::Warn => style.fg(Color::Yellow),
        }
    }

    /// Returns the text with characters that the terminal has.
    pub(crate) fn text(self, text: &str) -> String {
        if self.has_unicode {
            return text.to_owned();
        }
        text.chars().map(plain).collect()
    }
}

/// A container has no locale and shows everything; a locale that says otherwise means it.
fn is_utf8(locale: Option<&str>) -> bool {
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Returns what stands for a character where there is only ASCII.
fn plain(c: char) -> char {
    let verdict = Verdict::ALL.into_iter().find(|v| v.mark() == c);
    if let Some(verdict) = verdict {
        return verdict.plain_mark();
    }
    match c {
        c if c.is_ascii() => c,
        '━' => '=',
        '┃' | '┤' | '│' => '|',
        '┛' | '┓' | '┏' | '┗' | '┼' => '+',
        '┄' => '.',
        '┊' => ':',
        '─' | '—' | '−' | '·' => '-',
        '○' => 'o',
        '△' => '^',
        '±' => '~',
        '…' => '.',
        '▸' | '→' | '⟩' => '>',
        '⟨' => '<',
        '“' | '”' => '"',
        '’' => '\'',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_a_plain_form() {
        let look = Look {
            has_colour: false,
            has_unicode: false,
        };
        assert_eq!(look.text("● ✕ ◇ – □ −2.1 é"), "* x ? - # -2.1 ?");
    }

    #[test]
    fn a_locale_says_what_is_shown() {
        for (locale, want) in [
            (None, true),
            (Some("de_DE.UTF-8"), true),
            (Some("C.utf8"), true),
            (Some("C"), false),
            (Some("en_US.ISO-8859-1"), false),
        ] {
            assert_eq!(is_utf8(locale), want, "{locale:?}");
        }
    }

    #[test]
    fn without_colour_nothing_is_coloured() {
        for role in [
            Role::Better,
            Role::Worse,
            Role::Infra,
            Role::Warn,
            Role::Unsure,
        ] {
            let look = |has_colour| Look {
                has_colour,
                has_unicode: true,
            };
            assert_eq!(look(false).style(role).fg, None);
            assert!(look(true).style(role).fg.is_some());
        }
    }
}
