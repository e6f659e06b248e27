//! The trained document: what is protected in it, how edits change it, the folder it travels in.
//!
//! A skill's `SKILL.md` is one Markdown text with up to three kinds of protected region: the front
//! matter at its start, the slow-update block and the appendix block. Edits and rewrites work on
//! the rest; each block has its own module. Source: training spec, chapter 3.
//!
//! All functions are pure and total: no input makes them panic.

pub mod appendix;
pub mod edit;
pub mod folder;
pub mod front_matter;
pub mod regions;
pub mod rewrite;
pub mod slow_block;
#[cfg(test)]
mod test_documents;

pub use edit::{Report, Status, apply_edit, apply_patch};
pub use folder::Folder;
pub use rewrite::keep_protected;
