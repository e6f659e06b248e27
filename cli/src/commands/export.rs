//! `skillopt export`: the folder of a run or a sweep, as `skillopt train` would have written it.

use std::path::Path;

use serde_json::json;
use skillopt_coordinator::folder::RunFolder;
use skillopt_proto::v1::GetRunRequest;

use crate::args::ExportArgs;
use crate::commands::sweep_results;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found;
use crate::output::Out;
use crate::output::words::{amount, plural};
use crate::remote::{self, Wanted};

pub(crate) fn run(args: &ExportArgs, out: &Out) -> Result<Exit, Failure> {
    check(&args.out)?;
    let wanted = Wanted {
        store: !args.no_store,
        only: &[],
        keep: &|path| !path.starts_with(".skillopt/") || !path.ends_with("lock"),
    };
    let fetched = remote::ask(&args.remote, out, async |remote| {
        let asked = GetRunRequest {
            id: args.id.clone(),
        };
        let run = remote
            .find(async |clients| clients.runs().get_run(asked.clone()).await)
            .await?;
        // A sweep has an id of its own.
        if run.is_none()
            && let Some(shown) = sweep_results::find(remote, &args.id).await?
        {
            sweep_results::write(&shown, &args.out)?;
            if args.cells {
                sweep_results::fetch_cells(remote, &shown, &args.out, out).await?;
            }
            return Ok(None);
        }
        let fetched = remote::download(remote, &args.id, &args.out, wanted).await?;
        Ok(Some(fetched))
    })?;
    let Some(fetched) = fetched else {
        if out.json {
            out.object("exported", json!({"id": args.id, "dir": args.out}));
        } else {
            out.line(format!("the results are in {}", args.out.display()));
        }
        return Ok(Exit::Done);
    };
    if out.json {
        out.object(
            "exported",
            json!({"id": args.id, "dir": args.out, "files": fetched.files, "bytes": fetched.bytes}),
        );
        return Ok(Exit::Done);
    }
    let dir = args.out.display();
    out.line(format!(
        "{}, {} bytes, are in {dir}",
        plural(fetched.files, "file"),
        amount(fetched.bytes)
    ));
    if found::is_run(&args.out) && !args.no_store {
        out.chat(format!(
            "look at it with `skillopt show {dir}`; check its numbers with `skillopt replay {dir}`"
        ));
    }
    Ok(Exit::Done)
}

/// Refuses a folder that holds other things: files of two runs must not mix.
fn check(dir: &Path) -> Result<(), Failure> {
    if dir.exists() && !dir.is_dir() {
        return Err(Failure::usage(format!("`{}` is no folder", dir.display()))
            .hint("choose another --out"));
    }
    let is_empty = std::fs::read_dir(dir).map_or(Ok::<_, Failure>(true), |mut entries| {
        Ok(entries.next().is_none())
    })?;
    if is_empty {
        return Ok(());
    }
    RunFolder::new(dir).check_is_ours()?;
    Err(
        Failure::usage(format!("`{}` holds a run already", dir.display()))
            .hint("choose a new folder with --out"),
    )
}
