//! From configuration to three parts: a split folder, or raw items cut by a ratio.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Generated, Item, Part, Ratio, Splits, check_unique, mersenne, read};
use crate::error::LoadError;
use crate::load_args::LoadArgs;
use crate::nearest;

/// How a benchmark's files are laid out.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name of the benchmark, part of a generated split's folder.
    pub name: &'static str,
    /// Mode that an empty `split_mode` means.
    pub default_mode: &'static str,
    /// Extensions of a part's file, the preferred one first. `json` must be an array.
    pub part_files: &'static [&'static str],
    /// Reads the raw rows of mode `ratio`.
    pub raw_rows: fn(&Path) -> Result<Vec<Value>, LoadError>,
    /// Turns raw row `index` into an item; `None` drops the row.
    pub raw_item: fn(Value, usize) -> Option<Value>,
    /// Turns a row of a part's file into an item.
    pub part_item: fn(Value) -> Value,
}

/// Returns the raw row as it is.
#[must_use]
pub fn keep_raw(row: Value, _index: usize) -> Option<Value> {
    Some(row)
}

/// Returns the row as it is.
#[must_use]
pub fn keep(row: Value) -> Value {
    row
}

/// Items, and the split folder that shall tell which part each fell into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The items.
    pub splits: Splits,
    /// Mode `ratio` only.
    pub generated: Option<Generated>,
}

/// Loads the three parts as the configuration says; writes nothing.
///
/// # Errors
/// Wrong mode, missing or unreadable files, wrong or repeated ids.
pub fn load(format: &Format, args: &LoadArgs) -> Result<Loaded, LoadError> {
    let mode = args.split_mode.trim().to_lowercase();
    let mode = if mode.is_empty() {
        format.default_mode
    } else {
        &mode
    };
    let mut loaded = match mode {
        "split_dir" => Loaded {
            splits: load_folder(format, &args.split_dir)?,
            generated: None,
        },
        "ratio" => load_ratio(format, args)?,
        other => {
            return Err(LoadError::Unknown {
                kind: "split_mode",
                name: other.to_owned(),
                hint: nearest::hint(other, &["split_dir", "ratio"]),
            });
        }
    };
    loaded.splits.limit(args.limit);
    Ok(loaded)
}

fn load_folder(format: &Format, folder: &str) -> Result<Splits, LoadError> {
    if folder.trim().is_empty() {
        return Err(LoadError::setting(
            "split_dir",
            "mode `split_dir` needs a folder with train/, val/ and test/",
        ));
    }
    let folder = Path::new(folder);
    if !folder.is_dir() {
        return Err(LoadError::content(folder, "there is no such folder"));
    }
    if let Some(part) = Part::ALL
        .iter()
        .find(|part| !folder.join(part.folder()).is_dir())
    {
        return Err(LoadError::content(
            folder,
            format!(
                "no folder `{}`; a split folder holds train/, val/ and test/",
                part.folder()
            ),
        ));
    }
    let mut paths = Vec::new();
    for part in Part::ALL {
        paths.push(read::first_file(
            &folder.join(part.folder()),
            format.part_files,
        )?);
    }
    let read = |path: &Path| {
        let rows = if read::has_extension(path, "json") {
            read::array(path)
        } else {
            read::rows(path)
        };
        Ok(rows?.into_iter().map(format.part_item).collect())
    };
    from_files(&paths, read)
}

/// Makes the parts out of one file each: train, val, test.
pub(crate) fn from_files(
    paths: &[PathBuf],
    read: impl Fn(&Path) -> Result<Vec<Value>, LoadError>,
) -> Result<Splits, LoadError> {
    let mut splits = Splits::default();
    for (path, part) in paths.iter().zip(Part::ALL) {
        *splits.part_mut(part) = items(read(path)?.into_iter(), path)?;
    }
    let parts: Vec<(&Path, &[Item])> = paths
        .iter()
        .zip(Part::ALL)
        .map(|(path, part)| (path.as_path(), splits.part(part)))
        .collect();
    check_unique(&parts)?;
    Ok(splits)
}

fn items(rows: impl Iterator<Item = Value>, path: &Path) -> Result<Vec<Item>, LoadError> {
    rows.enumerate()
        .map(|(index, row)| Item::new(row, path, index))
        .collect()
}

fn load_ratio(format: &Format, args: &LoadArgs) -> Result<Loaded, LoadError> {
    if args.data_path.trim().is_empty() {
        return Err(LoadError::setting(
            "data_path",
            "mode `ratio` needs a file of raw items, or a folder that holds one",
        ));
    }
    let ratio = if args.split_ratio.trim().is_empty() {
        Ratio::DEFAULT
    } else {
        Ratio::parse(&args.split_ratio)?
    };
    let seed = if args.split_seed == 0 {
        args.seed
    } else {
        args.split_seed
    };
    let source = Path::new(&args.data_path);
    let rows = (format.raw_rows)(source)?;
    let rows = rows
        .into_iter()
        .enumerate()
        .filter_map(|(index, row)| (format.raw_item)(row, index));
    let items = items(rows, source)?;
    if items.is_empty() {
        return Err(LoadError::content(source, "there are no items to split"));
    }
    check_unique(&[(source, &items)])?;
    let splits = cut(items, ratio, seed);
    let folder = split_folder(format, args, ratio, seed);
    let manifest = json!({
        "source_data_path": args.data_path,
        "split_mode": "ratio",
        "split_ratio": ratio.text(":"),
        "split_seed": seed,
        "counts": {
            "train": splits.train.len(),
            "val": splits.val.len(),
            "test": splits.test.len(),
        },
    });
    let generated = Some(Generated::new(&folder, &splits, &manifest)?);
    Ok(Loaded { splits, generated })
}

/// Shuffles the items and cuts them.
fn cut(mut items: Vec<Item>, ratio: Ratio, seed: i64) -> Splits {
    mersenne::Mersenne::new(seed).shuffle(&mut items);
    let [train, val, _] = ratio.counts(items.len());
    let test = items.split_off(train + val);
    let val = items.split_off(train);
    Splits {
        train: items,
        val,
        test,
    }
}

fn split_folder(format: &Format, args: &LoadArgs, ratio: Ratio, seed: i64) -> PathBuf {
    if !args.split_output_dir.trim().is_empty() {
        return PathBuf::from(&args.split_output_dir);
    }
    args.out_root.join("_generated_splits").join(format!(
        "{}_{}_seed{seed}",
        format.name,
        ratio.text("-")
    ))
}

/// Reads raw rows from one JSON, JSONL or CSV file, or from a folder with exactly one such file.
///
/// # Errors
/// There is none or more than one, or the folder is a split folder.
pub fn one_raw_file(path: &Path) -> Result<Vec<Value>, LoadError> {
    if !path.is_dir() {
        return read::rows(path);
    }
    if Part::ALL
        .iter()
        .any(|part| path.join(part.folder()).exists())
    {
        return Err(LoadError::content(
            path,
            "this is a split folder; set `split_mode: split_dir` and `split_dir` to it",
        ));
    }
    let mut files = read::files(path)?;
    files.retain(|file| {
        ["json", "jsonl", "csv"]
            .iter()
            .any(|extension| read::has_extension(file, extension))
    });
    match files.as_slice() {
        [file] => read::rows(file),
        found => Err(LoadError::content(
            path,
            format!(
                "expected exactly one `.json`, `.jsonl` or `.csv` file here, found {}; name the \
                 file itself",
                found.len()
            ),
        )),
    }
}
