//! The rules of this repository that no compiler checks, as tests: who may depend on whom, no
//! cycles between modules, no file that nobody compiles, pages that tell the truth.

mod dependencies;
mod kits;
mod manifest;
mod module_cycles;
mod module_tree;
mod pages;
mod paths;
mod promises;
mod source;
mod words;

/// Fails with a list of what was found and the rule that it breaks.
#[track_caller]
fn none_of(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}
