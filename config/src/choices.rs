//! The settings that are one of a few words, with the spellings the reference accepts.

pub use skillopt_core::kind::Word;

macro_rules! choices {
    ($( $(#[$meta:meta])* $name:ident { $( $(#[$vmeta:meta])* $variant:ident $word:literal [$($alias:literal),*] )+ } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$vmeta])* $variant, )+ }

        impl $name {
            /// The words, each with its other spellings.
            pub const WORDS: &'static [Word] = &[$( ($word, &[$($alias),*]) ),+];

            /// Returns the canonical word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }

            /// Reads any accepted spelling, whatever its case and surrounding blanks.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let text = text.trim().to_lowercase();
                $( if text == $word $( || text == $alias )* { return Some(Self::$variant); } )+
                None
            }
        }
    )+ };
}

choices! {
    /// How the edit budget moves over the run (training spec 4.1).
    LrScheduler {
        /// The maximum at every step.
        Constant "constant" []
        /// Falls in a straight line.
        Linear "linear" []
        /// Falls along half a cosine.
        Cosine "cosine" []
        /// No limit from the schedule.
        Autonomous "autonomous" []
    }

    /// Who decides the number of edits of a step (4.2).
    LrControlMode {
        /// The schedule.
        Fixed "fixed" ["manual", "scheduler", "scheduled"]
        /// The optimizer model, step by step.
        Autonomous "autonomous" ["auto", "optimizer"]
        /// Nobody: no limit.
        None "none" ["off", "no_lr"]
    }

    /// What the optimizer proposes (2.2).
    UpdateMode {
        /// Small edits, applied by us.
        Patch "patch" ["edits", ""]
        /// Suggestions that one more call turns into a new text.
        RewriteFromSuggestions "rewrite_from_suggestions" ["rewrite", "suggestions", "rewrite_suggestions"]
        /// Whole new texts.
        FullRewriteMinibatch "full_rewrite_minibatch" ["full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"]
    }

    /// Which pairs the slow update looks at (1.10).
    PairPolicy {
        /// All.
        Mixed "mixed" ["default", "random", "all"]
        /// Only improved and regressed ones.
        Changed "changed" ["change", "delta", "10_01", "01_10"]
        /// Only those that stayed.
        Unchanged "unchanged" ["stable", "same", "00_11"]
    }

    /// The number that the gate compares (5.1).
    GateMetric {
        /// Share of items solved.
        Hard "hard" []
        /// Mean partial credit.
        Soft "soft" []
        /// A weighted mean of both.
        Mixed "mixed" []
    }

    /// Which analysts may write appendix notes (6.3).
    AppendixSource {
        /// Both analysts.
        Both "both" []
        /// Only the analyst of failures.
        FailureOnly "failure_only" []
    }

    /// Where the splits come from (1.15).
    SplitMode {
        /// Cut one file by a ratio.
        Ratio "ratio" []
        /// A folder with `train`, `val` and `test`.
        SplitDir "split_dir" []
    }

    /// With whom answers of earlier jobs are shared.
    Scope {
        /// With every run on the same store.
        Shared "shared" []
        /// Only within this run, also when it is resumed.
        Run "run" []
        /// With nobody: a new start asks everything again.
        Fresh "fresh" []
    }

    /// How a model is asked for structured answers.
    AnswerMode {
        /// Free text with JSON in it.
        Free "free" []
        /// The stage's JSON schema goes with the request.
        Schema "schema" []
    }

    /// Which stages write a folder per item.
    Predictions {
        /// All rollouts.
        All "all" []
        /// Only training rollouts.
        Train "train" []
        /// None.
        None "none" []
    }

    /// How hard a model thinks before it answers.
    ReasoningEffort {
        /// Nothing is sent.
        Off "" ["none", "off"]
        /// Little.
        Low "low" []
        /// Some.
        Medium "medium" []
        /// Much.
        High "high" []
        /// Very much.
        Xhigh "xhigh" []
        /// As much as the model can.
        Max "max" []
    }
}

impl ReasoningEffort {
    /// Returns the word to send, or nothing if the provider decides.
    #[must_use]
    pub const fn to_wire(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            other => Some(other.as_str()),
        }
    }
}
