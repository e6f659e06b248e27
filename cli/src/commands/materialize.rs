//! `skillopt materialize-searchqa`.

use serde_json::json;
use skillopt_benchmarks::searchqa::materialize_searchqa;

use crate::args::MaterializeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;

pub(crate) fn run(args: &MaterializeArgs, out: &Out) -> Result<Exit, Failure> {
    let sizes = materialize_searchqa(&args.manifest_dir, &args.source, &args.out, &args.dataset)?;
    let [train, val, test] = sizes;
    if out.json {
        out.object(
            "data",
            json!({"dir": args.out, "train": train, "val": val, "test": test}),
        );
    } else {
        out.line(format!(
            "{train} train, {val} val and {test} test items are in {}",
            args.out.display()
        ));
    }
    Ok(Exit::Done)
}
