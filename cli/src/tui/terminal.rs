//! The terminal: taken for as long as frames are drawn, and given back as it was.

use std::io::{self, Write as _, stdout};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};

use super::look::Look;
use super::{SMALLEST, Size};

/// What a person pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A letter or a sign.
    Char(char),
    Enter,
    Escape,
    /// Ctrl-C: while the terminal is ours, it is a key and no signal.
    Interrupt,
    Up,
    Down,
    /// The window has another size now.
    Resize,
}

/// Puts frames on the screen. When it goes, for whatever reason, the screen is as it was before
/// and the last frame stands below it, in the scrollback.
pub(crate) struct Terminal {
    inner: DefaultTerminal,
    last: Vec<Line<'static>>,
    has_colour: bool,
}

impl Terminal {
    /// Takes the terminal. After a panic it is given back, too.
    ///
    /// # Errors
    /// It cannot be set up.
    pub(crate) fn take(look: Look) -> io::Result<Self> {
        Ok(Self {
            inner: ratatui::try_init()?,
            last: Vec::new(),
            has_colour: look.has_colour,
        })
    }

    /// Returns its size now.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn size(&self) -> io::Result<Size> {
        let size = self.inner.size()?;
        Ok(Size {
            columns: size.width,
            rows: size.height,
        })
    }

    /// Shows a frame.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&mut self, lines: Vec<Line<'static>>) -> io::Result<()> {
        self.inner.draw(|frame| {
            frame.render_widget(Text::from(lines.clone()), frame.area());
        })?;
        self.last = lines;
        Ok(())
    }

    /// Returns the next key that was pressed, without waiting for one.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn key(&self) -> io::Result<Option<Key>> {
        while event::poll(Duration::ZERO)? {
            let key = match event::read()? {
                Event::Resize(..) => return Ok(Some(Key::Resize)),
                Event::Key(key) if key.kind != KeyEventKind::Release => key,
                _ => continue,
            };
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            return Ok(Some(match key.code {
                KeyCode::Char('c' | 'd') if is_control => Key::Interrupt,
                KeyCode::Char(c) if !is_control => Key::Char(c),
                KeyCode::Enter => Key::Enter,
                KeyCode::Esc => Key::Escape,
                KeyCode::Up => Key::Up,
                KeyCode::Down => Key::Down,
                _ => continue,
            }));
        }
        Ok(None)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Done before the message was written; once more would set the cursor over it.
            return;
        }
        ratatui::restore();
        drop(print(&self.last, self.has_colour));
    }
}

/// Writes a frame to standard output, in colour or as plain text. The line of keys at its foot and
/// the room above it are left out: nothing can be pressed any more.
///
/// # Errors
/// Standard output takes no more.
pub(crate) fn print(lines: &[Line<'static>], has_colour: bool) -> io::Result<()> {
    let lines = match lines {
        [rest @ .., _keys] if lines.len() >= usize::from(SMALLEST.rows) => rest,
        short => short,
    };
    let mut out = stdout().lock();
    let mut blank = 0;
    for line in lines {
        if line.width() == 0 {
            blank += 1;
            continue;
        }
        // Room in the middle parts what stands there; it need not be as high as the window.
        if std::mem::take(&mut blank) > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", painted(line, has_colour))?;
    }
    out.flush()
}

fn painted(line: &Line<'static>, has_colour: bool) -> String {
    let mut text = String::new();
    for span in &line.spans {
        match codes(span.style) {
            codes if codes.is_empty() || !has_colour => text.push_str(&span.content),
            codes => text.push_str(&format!("\x1b[{codes}m{}\x1b[0m", span.content)),
        }
    }
    text.trim_end().to_owned()
}

const fn codes(style: Style) -> &'static str {
    match style.fg {
        Some(Color::Blue) => "34",
        Some(Color::Red) => "31",
        Some(Color::DarkGray) => "90",
        Some(Color::Magenta) => "35",
        Some(Color::Yellow) => "33",
        _ if style.add_modifier.contains(Modifier::BOLD) => "1",
        _ if style.add_modifier.contains(Modifier::DIM) => "2",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const PANICS: &str = "SKILLOPT_TEST_PANICS";

    /// Runs itself on a terminal of its own, where it panics while a frame is shown.
    #[test]
    fn after_a_panic_the_terminal_is_as_it_was() {
        let look = Look {
            has_colour: false,
            has_unicode: true,
        };
        if std::env::var_os(PANICS).is_some() {
            let mut terminal = Terminal::take(look).unwrap();
            terminal.draw(vec![Line::from("frame")]).unwrap();
            panic!("on purpose");
        }
        let me = std::env::current_exe().unwrap();
        let name = "tui::terminal::tests::after_a_panic_the_terminal_is_as_it_was";
        let script = format!(
            "stty rows 20 cols 80; stty -a; {PANICS}=1 '{}' --exact {name} --nocapture; stty -a",
            me.display()
        );
        let dir = tempfile::tempdir().unwrap();
        let seen = Command::new("script")
            .args(["-qec", &script])
            .arg(dir.path().join("typescript"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&seen.stdout).into_owned();
        let parts: Vec<&str> = text.split("speed ").collect();
        assert_eq!(parts.len(), 3, "{text}");
        let modes = |part: &str| {
            let all = part.split_once("-echoprt").map_or(part, |(modes, _)| modes);
            all.to_owned()
        };
        assert_eq!(modes(parts[1]), modes(parts[2]), "{text}");
        let left = text.find("\x1b[?1049l").expect("the screen is given back");
        let told = text.find("on purpose").expect("the message is seen");
        assert!(left < told, "{text}");
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "{text}");
        assert!(text.contains("\x1b[?25h"), "{text}");
    }
}
