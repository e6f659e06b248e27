//! Random documents for property tests.

use proptest::prelude::*;

/// Documents from pieces that matter: markers, their halves, front matter, blank lines.
pub(super) fn document() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<!-- SLOW_UPDATE_START -->",
        "<!-- SLOW_UPDATE_END -->",
        "<!-- APPENDIX_START -->",
        "<!-- APPENDIX_END -->",
        "<!-- SLOW_UPDATE_",
        "START -->",
        "---\n",
        "name: a\n",
        "- rule\n",
        "é",
        "\n",
        "\r\n",
        " ",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}
