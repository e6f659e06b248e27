//! How strongly a program is shut in, and who decides that.

use serde::Serialize;

/// How strongly a program is shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces of its own for everything: it sees its folders, a read-only system, no network.
    Bubblewrap,
    /// The kernel refuses what is not allowed, but the view is shared: processes and free ports of
    /// the machine can be seen.
    Landlock,
    /// Nothing is refused. Its environment is its own and nothing of it survives, that is all.
    None,
}

/// Which level a worker wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The strongest that the machine offers; an error if it offers neither.
    #[default]
    Auto,
    /// This one, or an error.
    Bubblewrap,
    /// This one, or an error.
    Landlock,
    /// No protection at all, and only because somebody asked for it by this name.
    None,
}

impl Policy {
    /// Reads the value of the setting.
    ///
    /// # Errors
    /// It is none of the four; the text says which there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "bubblewrap" => Ok(Self::Bubblewrap),
            "landlock" => Ok(Self::Landlock),
            "none" => Ok(Self::None),
            other => Err(format!(
                "unknown sandbox `{other}`; it is one of auto, bubblewrap, landlock, none"
            )),
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}
