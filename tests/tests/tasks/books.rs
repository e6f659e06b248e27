//! A benchmark whose tasks are done in workbooks: one goes in, a changed one comes out, and a program
//! compares the cell that was asked for.

use serde_json::json;
use skillopt_tests::support::program::{clean, run};

use crate::scene::Scene;
use crate::scripts::{runs, says, wants_the_skill};

const CONFIG: &str = "\
env:
  name: custom
  benchmark_dir: books
";

const BENCHMARK: &str = r#"
name: books
items: {train: train.jsonl, val: val.jsonl, test: test.jsonl}
scorer: {kind: command, command: [python3, judge.py]}
inputs: {input.xlsx: "in/{{id}}.xlsx", workbook.py: "lib/workbook.py"}
outputs: [output.xlsx]
expected: {output.xlsx: "gold/{{id}}.xlsx"}
"#;

const PROMPT: &str = "\
Book {{id}}: put the {{what}} of A1 to A3 into {{position}}. The workbook is `input.xlsx`; write the changed
one to `output.xlsx`. `workbook.py` reads and writes cells.
";

/// Reads and writes the one sheet of a workbook, with the fewest parts that a workbook has.
const WORKBOOK: &str = r#"
import re
import zipfile

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
SHEET = "xl/worksheets/sheet1.xml"
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>'
    f'<Override PartName="/{SHEET}" ContentType="{KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{REL}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{REL}"><sheets>'
    '<sheet name="Sheet1" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{REL}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}


def read(path):
    with zipfile.ZipFile(path) as book:
        sheet = book.read(SHEET).decode()
    return dict(re.findall(r'<c r="(\w+)"><v>([^<]*)</v></c>', sheet))


def write(path, cells):
    rows = {}
    for place, value in sorted(cells.items()):
        rows.setdefault(int(place[1:]), []).append(f'<c r="{place}"><v>{value}</v></c>')
    rows = "".join(f'<row r="{n}">{"".join(row)}</row>' for n, row in sorted(rows.items()))
    with zipfile.ZipFile(path, "w") as book:
        for name, text in PARTS.items():
            book.writestr(name, text)
        book.writestr(SHEET, f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>')
"#;

/// Compares one cell, as its item says.
const JUDGE: &str = r#"
import json, sys, workbook

place = json.load(sys.stdin)["item"]["position"]
found = workbook.read("outputs/output.xlsx").get(place)
wanted = workbook.read("expected/output.xlsx")[place]
right = found == wanted
print(json.dumps({"hard": right, "reason": "" if right else f"{place} is {found}, not {wanted}"}))
"#;

/// Makes the books: what goes in, and what should come out.
const MAKE: &str = r#"
import json, os, sys
sys.path.insert(0, "lib")
import workbook

os.makedirs("in")
os.makedirs("gold")
for n, split in enumerate(["train", "val", "test", "test", "test", "test"]):
    name = f"b{n - 1}" if split == "test" else split
    with open(f"{split}.jsonl", "a") as items:
        items.write(json.dumps({"id": name, "what": "sum", "position": "B1"}) + "\n")
    cells = {"A1": 10 * n, "A2": 20 * n, "A3": 30 * n}
    workbook.write(f"in/{name}.xlsx", cells)
    workbook.write(f"gold/{name}.xlsx", cells | {"B1": 60 * n})
"#;

/// What an agent runs that does as it is told, with `sum` in its place.
const SOLUTION: &str = "\
cat >solution.py <<'END'
import workbook
cells = workbook.read('input.xlsx')
cells['B1'] = sum(int(cells[place]) for place in ('A1', 'A2', 'A3'))
workbook.write('output.xlsx', cells)
END
python3 solution.py && echo written";

/// What is known of each book: its score, words of what the agent saw, and why it is wrong.
pub(crate) const BOOKS: [(&str, u8, &str, &str); 4] = [
    ("b1", 1, "written", ""),
    ("b2", 1, "written", ""),
    ("b3", 0, "written", "B1 is 120, not 240"),
    ("b4", 0, "There is nothing to do", "no_output"),
];

/// Puts the books on the table of a real CLI, with a model that does two of them as it should, takes
/// the largest number of the third for the sum, and does nothing about the fourth.
#[track_caller]
pub(crate) fn scene(backend: &str) -> Scene {
    let scene = Scene::real_at(backend, CONFIG);
    for (name, text) in [
        ("benchmark.yaml", BENCHMARK),
        ("prompt.md", PROMPT),
        ("judge.py", JUDGE),
        ("workbook.py", WORKBOOK),
        ("lib/workbook.py", WORKBOOK),
        ("make.py", MAKE),
    ] {
        scene.world.write(&format!("books/{name}"), text);
    }
    let folder = scene.world.path("books");
    run(clean("python3", ["make.py"]).current_dir(&folder)).code(0);
    // Whatever lies beside the benchmark belongs to its judge.
    std::fs::remove_file(folder.join("make.py")).unwrap();
    let mut rules = wants_the_skill();
    rules.push(json!({"when": {"text": "Book b4:"}, "reply": says("There is nothing to do.")}));
    let wrong = SOLUTION.replace("sum(", "max(");
    rules.extend(runs(&wrong, "Book b3:"));
    rules.extend(runs(SOLUTION, ""));
    scene.script(json!({"rules": rules, "default": says("It is done.")}));
    scene
}
