//! Makes a split folder out of id lists and the public data set's rows (benchmarks spec 2.1).

use std::collections::HashMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::LoadError;
use crate::splits::{Generated, Item, Part, Splits, check_unique, read};

const FIELDS: [&str; 4] = ["id", "question", "context", "answers"];

/// Joins the ids below `manifest_dir` (`<part>/items.json`) with the rows of `sources` (JSON, JSONL
/// or CSV files; their column `key` is the id) and writes a split folder. Returns the sizes of
/// train, val and test. Nothing is written before everything is found and checked.
///
/// # Errors
/// An id twice, missing in the sources or twice in them, or a row without a field.
pub fn materialize_searchqa(
    manifest_dir: &Path,
    sources: &[PathBuf],
    output_dir: &Path,
    dataset: &str,
) -> Result<[usize; 3], LoadError> {
    let wanted = wanted(manifest_dir)?;
    let mut rows: HashMap<String, Option<Value>> = Part::ALL
        .iter()
        .flat_map(|part| wanted.part(*part))
        .map(|item| (item.id.clone(), None))
        .collect();
    for source in sources {
        each_row(source, |row| keep(&mut rows, row, source))?;
    }
    check_complete(&wanted, &rows, manifest_dir)?;
    let mut take = |part: Part| -> Vec<Item> {
        let ids = wanted.part(part).iter().map(|item| item.id.clone());
        ids.filter_map(|id| {
            let value = rows.remove(&id).flatten()?;
            Some(Item { id, value })
        })
        .collect()
    };
    let splits = Splits {
        train: take(Part::Train),
        val: take(Part::Val),
        test: take(Part::Test),
    };
    let counts = Part::ALL.map(|part| splits.part(part).len());
    let manifest = json!({
        "source_manifest_dir": manifest_dir.display().to_string(),
        "source_dataset": dataset,
        "counts": { "train": counts[0], "val": counts[1], "test": counts[2] },
        "item_fields": FIELDS,
    });
    Generated::new(output_dir, &splits, &manifest)?.write()?;
    Ok(counts)
}

/// The three id lists, in order.
fn wanted(manifest_dir: &Path) -> Result<Splits, LoadError> {
    let list = |part: Part| -> Result<(PathBuf, Vec<Item>), LoadError> {
        let path = manifest_dir.join(part.folder()).join("items.json");
        let rows = read::array(&path)?.into_iter().enumerate();
        let items = rows
            .map(|(index, row)| Item::new(row, &path, index))
            .collect::<Result<_, _>>()?;
        Ok((path, items))
    };
    let (train_path, train) = list(Part::Train)?;
    let (val_path, val) = list(Part::Val)?;
    let (test_path, test) = list(Part::Test)?;
    check_unique(&[
        (&train_path, &train),
        (&val_path, &val),
        (&test_path, &test),
    ])?;
    Ok(Splits { train, val, test })
}

/// Calls `f` with every row; JSONL is read line by line, because the public set is large.
fn each_row(
    path: &Path,
    mut f: impl FnMut(Value) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    if !read::has_extension(path, "jsonl") {
        return read::rows(path)?.into_iter().try_for_each(f);
    }
    let file = std::fs::File::open(path).map_err(|e| LoadError::io("read", path, e))?;
    for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| LoadError::io("read", path, e))?;
        if !line.trim().is_empty() {
            let row =
                serde_json::from_str(&line).map_err(|e| read::json_error(path, &e, number))?;
            f(row)?;
        }
    }
    Ok(())
}

/// Keeps a row that is wanted, cut to the four fields.
fn keep(
    rows: &mut HashMap<String, Option<Value>>,
    mut row: Value,
    source: &Path,
) -> Result<(), LoadError> {
    let key = match row.get("key") {
        Some(Value::String(key)) => key.clone(),
        Some(Value::Number(key)) => key.to_string(),
        _ => return Ok(()),
    };
    let Some(slot) = rows.get_mut(&key) else {
        return Ok(());
    };
    let fail = |problem: &str| LoadError::content(source, format!("row `{key}` {problem}"));
    if slot.is_some() {
        return Err(fail("occurs twice in the source"));
    }
    let mut item = Map::new();
    item.insert("id".to_owned(), key.clone().into());
    for field in FIELDS.into_iter().skip(1) {
        let value = row.get_mut(field).map(Value::take);
        let value = value.ok_or_else(|| fail(&format!("has no `{field}`")))?;
        item.insert(field.to_owned(), value);
    }
    *slot = Some(Value::Object(item));
    Ok(())
}

fn check_complete(
    wanted: &Splits,
    rows: &HashMap<String, Option<Value>>,
    manifest_dir: &Path,
) -> Result<(), LoadError> {
    let is_missing = |id: &str| rows.get(id).is_none_or(Option::is_none);
    let missing: Vec<&str> = Part::ALL
        .iter()
        .flat_map(|part| wanted.part(*part))
        .map(|item| item.id.as_str())
        .filter(|id| is_missing(id))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let first: Vec<&str> = missing.iter().copied().take(5).collect();
    Err(LoadError::content(
        manifest_dir,
        format!(
            "{} ids are not in the source rows, the first: {}",
            missing.len(),
            first.join(", ")
        ),
    ))
}
