use std::path::Path;

use super::*;
use crate::contract::LoadArgs;
use crate::error::LoadError;
use crate::searchqa::FORMAT;

/// Reads text as rows of a file and shows what came out.
fn rows(bytes: &[u8]) -> String {
    match read::parse_rows(bytes, Path::new("raw.jsonl")) {
        Ok(rows) => serde_json::to_string(&rows).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn rows_are_read_from_whatever_people_save() {
    for (bytes, want) in [
        (
            &b"{\"id\":1}\r\n\r\n{\"id\":2}\r\n"[..],
            r#"[{"id":1},{"id":2}]"#,
        ),
        (b"\xef\xbb\xbf[{\"id\":1}]", r#"[{"id":1}]"#),
        (
            b"{\"id\":1,\"answers\":[\"a\"]}",
            r#"[{"id":1,"answers":["a"]}]"#,
        ),
        (b"{\"data\":[]}", "[]"),
        (b" \n", "[]"),
        (
            b"[{\"id\":1},\n {\"id\":",
            "`raw.jsonl`, line 2, column 7: the JSON ends too early",
        ),
        (
            b"{\"id\":1}\n{\"id\":\n{\"id\":3}",
            "line 2, column 6: the JSON ends too early",
        ),
        (
            b"{\"id\":1}\n{id:2}",
            "line 2, column 2: not valid JSON: key must be a string",
        ),
        (
            b"{\n  \"id\": 1,\n}",
            "line 3, column 1: not valid JSON: trailing comma",
        ),
        (
            b"{\"id\":1}\n{\"id\":\"\xff\"}",
            "line 2, column 8: this is not UTF-8",
        ),
        (b"[NaN]", "line 1, column 2: not valid JSON"),
    ] {
        let seen = rows(bytes);
        assert!(seen.contains(want), "wanted {want}, got {seen}");
    }
    let deep = rows("[".repeat(100_000).as_bytes());
    assert!(deep.contains("recursion limit"), "{deep}");
}

/// Loads a split folder whose train file has this content.
fn load_train(content: &[u8], name: &str) -> Result<Splits, LoadError> {
    let dir = tempfile::tempdir().unwrap();
    for part in Part::ALL {
        let folder = dir.path().join(part.folder());
        std::fs::create_dir(&folder).unwrap();
        let (name, content) = match part {
            Part::Train => (name, content),
            Part::Val | Part::Test => ("items.json", &b"[]"[..]),
        };
        std::fs::write(folder.join(name), content).unwrap();
    }
    load(
        &FORMAT,
        &LoadArgs {
            split_mode: " Split_Dir ".to_owned(),
            split_dir: dir.path().display().to_string(),
            ..LoadArgs::default()
        },
    )
    .map(|loaded| loaded.splits)
}

#[test]
fn a_broken_split_folder_says_what_to_do() {
    for (content, name, want) in [
        (&b""[..], "items.json", "the file is empty"),
        (
            b"{}",
            "items.json",
            "expected a JSON array of items, found an object",
        ),
        (b"[{\"id\":\"a\"}", "items.json", "half written"),
        (
            b"[{\"id\":\"a\"},{\"id\":\"a\"}]",
            "items.json",
            "id `a` occurs twice",
        ),
        (b"[{\"id\":\"a\"},7]", "items.json", "item 2 is a number"),
        (b"[]", "items.txt", "no `*.json` or `*.jsonl` file"),
    ] {
        let error = load_train(content, name).unwrap_err().to_string();
        assert!(
            error.contains(want) && error.contains("train"),
            "{want}: {error}"
        );
    }
    let splits = load_train(b"{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "items.jsonl").unwrap();
    assert_eq!(splits.train.len(), 2);
}

#[test]
fn a_ratio_split_is_written_once_and_read_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw.jsonl");
    let lines: String = (0..50).map(|i| format!("{{\"id\":\"é/{i}\"}}\n")).collect();
    std::fs::write(&raw, lines).unwrap();
    let args = LoadArgs {
        split_mode: "ratio".to_owned(),
        data_path: raw.display().to_string(),
        split_seed: 0,
        seed: 7,
        out_root: dir.path().join("out"),
        ..LoadArgs::default()
    };
    let loaded = load(&FORMAT, &args).unwrap();
    let out = dir.path().join("out");
    assert!(!out.exists(), "loading writes nothing");
    let generated = loaded.generated.clone().unwrap();
    generated.write().unwrap();
    let folder = dir
        .path()
        .join("out/_generated_splits/searchqa_2-1-7_seed7");
    let written = std::fs::metadata(folder.join("train/items.json"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(load(&FORMAT, &args).unwrap(), loaded);
    generated.write().unwrap();
    let again = std::fs::metadata(folder.join("train/items.json"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(written, again);
    let args = LoadArgs {
        split_mode: "split_dir".to_owned(),
        split_dir: folder.display().to_string(),
        ..args
    };
    assert_eq!(load(&FORMAT, &args).unwrap().splits, loaded.splits);
}

#[test]
fn unknown_names_suggest_the_nearest() {
    for (name, want) in [
        ("dev", "known:"),
        ("tset", "did you mean `test`?"),
        ("Train", "`train`"),
    ] {
        let error = Part::parse(name).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
