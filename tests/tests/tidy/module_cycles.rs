//! Two modules that need each other share a noun that wants a file of its own.
//!
//! A reference from one module to another counts between the two branches below their nearest
//! common parent; a parent and its own child may know each other. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::crates;
use crate::module_tree::{ModulePath, Tree, target_roots};
use crate::none_of;

/// Re-exports are followed this many times.
const HOPS_MAX: usize = 8;

/// For each module, the names that its `use` lines bring in, and where they come from.
type Names = BTreeMap<ModulePath, BTreeMap<String, Vec<String>>>;

/// Who uses whom, with a reference that shows it.
type Edges = BTreeMap<ModulePath, BTreeMap<ModulePath, String>>;

#[test]
fn no_two_modules_need_each_other() {
    let mut found = Vec::new();
    for krate in crates() {
        for root in target_roots(&krate.dir) {
            if root.starts_with(krate.dir.join("src")) {
                let tree = Tree::read(&root);
                let cycles = cycles(&edges(&tree));
                found.extend(
                    cycles
                        .into_iter()
                        .map(|cycle| format!("{}: {cycle}", krate.name)),
                );
            }
        }
    }
    none_of(
        "modules in a cycle; give what they share a file of its own",
        &found,
    );
}

/// Returns the references between branches of the tree.
fn edges(tree: &Tree) -> Edges {
    let names: Names = tree
        .modules
        .iter()
        .map(|(path, module)| (path.clone(), names_used(tree, path, &module.code)))
        .collect();
    let mut edges = Edges::new();
    for (from, module) in tree.modules.iter().filter(|(_, module)| !module.is_test) {
        for reference in references(&module.code) {
            let Some(absolute) = absolute(from, &reference) else {
                continue;
            };
            let to = resolve(tree, &names, &absolute, HOPS_MAX);
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if shared == from.len() || shared == to.len() {
                continue;
            }
            let shown = format!(
                "`{}` in {}",
                reference.join("::"),
                crate::paths::shown(&module.file)
            );
            let (from, to) = (from[..=shared].to_vec(), to[..=shared].to_vec());
            edges.entry(from).or_default().entry(to).or_insert(shown);
        }
    }
    edges
}

/// Returns the paths of a file that begin with `crate`, `self` or `super`, groups written out.
fn references(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let starts = matches!(token.as_str(), "crate" | "self" | "super");
        let continues = at > 0 && tokens[at - 1] == "::";
        if starts && !continues && tokens.get(at + 1).is_some_and(|t| t == "::") {
            expand(&tokens, at, &[], &mut found);
        }
    }
    found.into_iter().map(|used| used.path).collect()
}

/// A path, and the name under which a `use` line makes it known.
struct Used {
    path: Vec<String>,
    name: String,
}

/// Writes out the tree of paths that begins at token `at`; returns the token after it.
fn expand(tokens: &[String], mut at: usize, prefix: &[String], found: &mut Vec<Used>) -> usize {
    let mut path = prefix.to_vec();
    let is_name = |token: &String| token.chars().all(|c| c.is_alphanumeric() || c == '_');
    while let Some(token) = tokens.get(at) {
        if token == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|t| t != "}") {
                let next = expand(tokens, at, &path, found);
                at = next.max(at + 1);
            }
            return at + 1;
        }
        if !is_name(token) {
            break;
        }
        path.push(token.clone());
        at += 1;
        match tokens.get(at) {
            Some(t) if t == "::" => at += 1,
            _ => break,
        }
    }
    let Some(mut name) = path.last().cloned() else {
        return at;
    };
    if tokens.get(at).is_some_and(|t| t == "as") {
        name = tokens.get(at + 1).cloned().unwrap_or_default();
        at += 2;
    }
    if path.len() > prefix.len() {
        found.push(Used { path, name });
    }
    at
}

/// Splits code into words, `::` and single signs.
fn tokens(code: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if c == ':' && chars.peek() == Some(&':') {
            chars.next();
            out.push("::".to_owned());
        } else if !c.is_whitespace() {
            out.push(c.to_string());
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

/// Makes a path that begins with `crate`, `self` or `super` one from the root of the crate.
fn absolute(from: &[String], reference: &[String]) -> Option<Vec<String>> {
    let (first, mut rest) = reference.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => from.to_vec(),
        _ => from.split_last()?.1.to_vec(),
    };
    while let Some(("super", tail)) = rest.split_first().map(|(f, t)| (f.as_str(), t)) {
        base.pop()?;
        rest = tail;
    }
    base.extend(rest.iter().filter(|segment| *segment != "self").cloned());
    Some(base)
}

/// Returns what the `use` lines of a module bring in from its own crate, by name.
fn names_used(tree: &Tree, module: &[String], code: &str) -> BTreeMap<String, Vec<String>> {
    let tokens = tokens(code);
    let mut names = BTreeMap::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at] == "use") {
        let mut paths = Vec::new();
        expand(&tokens, at + 1, &[], &mut paths);
        for Used { path, name } in paths {
            let is_child = |name: &String| {
                let mut child = module.to_vec();
                child.push(name.clone());
                tree.modules.contains_key(&child)
            };
            let full = match path.first() {
                Some(first) if matches!(first.as_str(), "crate" | "self" | "super") => {
                    absolute(module, &path)
                }
                Some(first) if is_child(first) => Some([module, &path].concat()),
                _ => None,
            };
            if let Some(full) = full {
                names.insert(name, full);
            }
        }
    }
    names
}

/// Returns the module that defines what a path from the root names.
fn resolve(tree: &Tree, names: &Names, path: &[String], hops: usize) -> ModulePath {
    let mut here = ModulePath::new();
    for (at, segment) in path.iter().enumerate() {
        let mut child = here.clone();
        child.push(segment.clone());
        if tree.modules.contains_key(&child) {
            here = child;
            continue;
        }
        let known = names.get(&here).and_then(|names| names.get(segment));
        return match known {
            Some(source) if hops > 0 => {
                let onward = [source, &path[at + 1..]].concat();
                resolve(tree, names, &onward, hops - 1)
            }
            _ => here,
        };
    }
    here
}

/// Returns each cycle once, in words.
fn cycles(edges: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    let mut reported: BTreeSet<ModulePath> = BTreeSet::new();
    for start in edges.keys() {
        if reported.contains(start) {
            continue;
        }
        if let Some(cycle) = shortest_way_back(edges, start) {
            reported.extend(cycle.iter().cloned());
            let steps = cycle.iter().zip(cycle.iter().skip(1).chain([start]));
            let words: Vec<String> = steps
                .map(|(a, b)| format!("{} → {} ({})", a.join("::"), b.join("::"), edges[a][b]))
                .collect();
            found.push(words.join(", "));
        }
    }
    found
}

/// Returns the modules of the shortest cycle through `start`, beginning with it.
fn shortest_way_back(edges: &Edges, start: &ModulePath) -> Option<Vec<ModulePath>> {
    let mut ways = std::collections::VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in edges.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push_back([way.as_slice(), std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

#[test]
fn groups_of_paths_are_written_out() {
    let found = references("use crate::{a, b::{c, d as e}, self}; x(super::f::<T>(), self.g)");
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(
        found,
        [
            "crate::a",
            "crate::b::c",
            "crate::b::d",
            "crate::self",
            "super::f"
        ]
    );
}

#[test]
fn a_cycle_is_found_through_a_re_export() {
    let module = |code: &str| crate::module_tree::Module {
        file: "x.rs".into(),
        code: code.to_owned(),
        is_test: false,
    };
    let path = |text: &str| -> ModulePath {
        text.split("::")
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let mut tree = Tree::default();
    tree.modules
        .insert(path(""), module("mod a; mod b; pub use a::Thing;"));
    tree.modules
        .insert(path("a"), module("use crate::b::Other;"));
    tree.modules
        .insert(path("b"), module("struct Other(crate::Thing);"));
    let found = cycles(&edges(&tree));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("a → b (`crate::b::Other` in x.rs), b → a"),
        "{found:?}"
    );
    tree.modules.insert(path("b"), module("struct Other;"));
    assert_eq!(cycles(&edges(&tree)), Vec::<String>::new());
}
