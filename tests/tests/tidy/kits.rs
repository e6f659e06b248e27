//! The page about new backends says what the conformance suites want to know of one.

use crate::manifest::read;
use crate::none_of;

const PAGE: &str = "docs/new-backend.md";

/// Types whose fields whoever adds a backend fills in, with their files.
const KITS: &[(&str, &str)] = &[
    ("backends/src/conformance.rs", "Kit"),
    ("backends/src/conformance/wire.rs", "Wire"),
    ("backends/src/conformance/programs.rs", "ProgramKit"),
    ("backends/src/conformance/programs.rs", "Says"),
    ("backends/src/conformance/programs/script.rs", "Said"),
];

#[test]
fn the_page_about_backends_describes_every_field_of_a_kit() {
    let page = read(PAGE);
    let mut missing = Vec::new();
    for (file, name) in KITS {
        let fields = fields(&read(file), name);
        assert!(!fields.is_empty(), "{file} has no `{name}`");
        // A row of a table, or several in one.
        let has_row = |field: &str| {
            let rows = page.lines().filter(|line| line.starts_with("| `"));
            rows.filter_map(|row| row.split('|').nth(1))
                .any(|cell| cell.contains(&format!("`{field}`")))
        };
        let undescribed = fields.iter().filter(|field| !has_row(field));
        missing.extend(undescribed.map(|field| format!("{name}::{field} ({file})")));
    }
    none_of(&format!("{PAGE} has no row for these fields"), &missing);
}

/// Returns the public fields of a type.
fn fields(code: &str, name: &str) -> Vec<String> {
    let begins = format!("pub struct {name} {{");
    let lines = code.lines().skip_while(|line| *line != begins);
    let body = lines.skip(1).take_while(|line| *line != "}");
    let fields = body.filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    fields.map(|(field, _)| field.to_owned()).collect()
}
