//! What goes wrong with a call: one number in [0, 1) against the chances, added up in their order
//! (chapter 7).

/// The chances of each fault, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chances {
    /// Refused with HTTP 429.
    pub p429: f64,
    /// Answered with HTTP 500.
    pub p500: f64,
    /// The connection is cut.
    pub preset: f64,
    /// Never answered.
    pub phang: f64,
    /// Answered with text that is not what was asked for.
    pub pgarbage: f64,
    /// Answered 200 with a body that is no JSON (not in the specification; added last, so that
    /// the other draws stay as they are).
    pub pmalformed: f64,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// With the answer.
    Answer,
    /// HTTP 429, at once.
    Throttled,
    /// HTTP 500.
    ServerError,
    /// No answer: the connection is cut.
    Cut,
    /// No answer: the call is held.
    Hang,
    /// An answer whose text is useless.
    Garbage,
    /// HTTP 200 with a body that is no JSON.
    Malformed,
    /// HTTP 401, at once.
    Unauthorized,
}

impl Fate {
    /// Returns whether the call waits for its latency before it ends so. Refusals and hung calls
    /// do not.
    #[must_use]
    pub const fn has_latency(self) -> bool {
        match self {
            Self::Answer | Self::ServerError | Self::Cut | Self::Garbage | Self::Malformed => true,
            Self::Throttled | Self::Hang | Self::Unauthorized => false,
        }
    }
}

impl Chances {
    /// Returns what `draw`, a number in [0, 1), stands for; it is asked only if a fault is
    /// possible.
    #[must_use]
    pub fn draw(&self, draw: impl FnOnce() -> f64) -> Fate {
        if *self == Self::default() {
            return Fate::Answer;
        }
        let draw = draw();
        let mut sum = 0.0;
        [
            (self.p429, Fate::Throttled),
            (self.p500, Fate::ServerError),
            (self.preset, Fate::Cut),
            (self.phang, Fate::Hang),
            (self.pgarbage, Fate::Garbage),
            (self.pmalformed, Fate::Malformed),
        ]
        .into_iter()
        .find(|(chance, _)| {
            sum += chance;
            draw < sum
        })
        .map_or(Fate::Answer, |(_, fate)| fate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_add_up_in_the_order_of_the_table() {
        let chances = Chances {
            p429: 0.1,
            p500: 0.1,
            preset: 0.1,
            phang: 0.1,
            pgarbage: 0.1,
            pmalformed: 0.1,
        };
        let check = |draw: f64, expected| assert_eq!(chances.draw(|| draw), expected, "{draw}");
        check(0.0, Fate::Throttled);
        check(0.15, Fate::ServerError);
        check(0.25, Fate::Cut);
        check(0.35, Fate::Hang);
        check(0.45, Fate::Garbage);
        check(0.55, Fate::Malformed);
        check(0.65, Fate::Answer);
        assert_eq!(Chances::default().draw(|| 0.0), Fate::Answer);
    }
}
