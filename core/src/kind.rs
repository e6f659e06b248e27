//! What values a setting takes: shared by whoever declares settings and whoever reads them.

/// One word of a choice: the canonical name and other accepted spellings.
pub type Word = (&'static str, &'static [&'static str]);

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in a range.
    Int {
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// A finite number in a range.
    Float {
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// A finite number in a range, or `none`, which leaves the choice to somebody else.
    FloatOrNone {
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// Any text.
    Text,
    /// A path; relative ones are taken from the working folder.
    Path,
    /// One of these words.
    Choice(&'static [Word]),
    /// A list of words, or one comma-separated text.
    Words,
    /// A mapping.
    Map,
    /// A credential.
    Secret,
}

impl Kind {
    /// Returns what is allowed, in words.
    #[must_use]
    pub fn allowed(&self) -> String {
        match self {
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Int { min, max } if *max >= HUGE => format!("a whole number of at least {min}"),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Float { min, max } if *max >= HUGE as f64 => {
                format!("a number of at least {min}")
            }
            Self::Float { min, max } => format!("a number from {min} to {max}"),
            Self::FloatOrNone { min, max } => format!("a number from {min} to {max}, or `none`"),
            Self::Text => "a text".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Choice(words) => {
                let words: Vec<String> = words.iter().map(|(w, _)| show_word(w)).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Words => "a list of words, or one text with commas".to_owned(),
            Self::Map => "a mapping".to_owned(),
            Self::Secret => "a credential".to_owned(),
        }
    }
}

fn show_word(word: &str) -> String {
    if word.is_empty() {
        "`\"\"`".to_owned()
    } else {
        format!("`{word}`")
    }
}

/// Words that stand for no number at all.
pub const NONE_WORDS: &[&str] = &["none", "off", "null"];

/// Upper bound of numbers that have no narrower one; keeps products of sizes inside 64 bits.
pub const HUGE: i64 = 1_000_000_000;

/// Builds the kind of whole numbers from `min` on.
#[must_use]
pub const fn int(min: i64) -> Kind {
    Kind::Int { min, max: HUGE }
}

/// Builds the kind of finite numbers of a range.
#[must_use]
pub const fn float(min: f64, max: f64) -> Kind {
    Kind::Float { min, max }
}
