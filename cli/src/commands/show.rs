//! `skillopt show`: scores, decisions in words, edits as a diff, tokens.

mod remote;

use std::path::Path;

use serde_json::json;
use skillopt_coordinator::read_model::{
    EvaluationRow, Headline, RunView, StepRow, TokenRow, Verdict, evaluation_headline, headline,
    points, share,
};

use crate::args::ShowArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::{Found, Notice, is_run, text_file};
use crate::output::diff::diff;
use crate::output::table::table;
use crate::output::words::{amount, number, plural};
use crate::output::{Out, Paint, Tone};
use crate::process;

use super::train::{counts, kept, scores};

pub(crate) fn run(args: &ShowArgs, out: &Out) -> Result<Exit, Failure> {
    if args.remote.coordinator.is_some() && !is_run(&args.run) {
        return remote::run(args, out);
    }
    let found = Found::read(&args.run, None)?;
    show(&found, args, out)
}

/// Shows a run, wherever it was found.
fn show(found: &Found, args: &ShowArgs, out: &Out) -> Result<Exit, Failure> {
    match args.step {
        Some(step) => show_step(found, step, out)?,
        None => show_run(found, out)?,
    }
    Ok(Exit::Done)
}

fn show_run(found: &Found, out: &Out) -> Result<(), Failure> {
    if let Some(row) = &found.view.evaluation {
        show_evaluation(found, row, out);
        return Ok(());
    }
    let run = &found.view.run;
    let failed = found.notice.as_ref().filter(|n| n.state == "failed");
    let lines = failed.map_or_else(|| headline(run), failure_lines);
    if out.json {
        out.object(
            "run",
            json!({"headline": lines, "run": run, "notice": found.notice}),
        );
        for row in &found.view.steps {
            out.object("step", json!(row));
        }
        return Ok(());
    }
    if let (Some(notice), None) = (&found.notice, failed) {
        let kept = kept(run);
        show_notice(found, notice, &kept, out);
    }
    out.line(format!(
        "{}   {}",
        out.paint.of(Tone::Strong, &lines.first),
        run.state
    ));
    out.line(&lines.second);
    out.line("");
    for line in scores(run) {
        out.line(line);
    }
    out.line("");
    out.line(counts(run));
    if !found.view.steps.is_empty() {
        out.line("");
        for line in table(&rows(&found.view.steps)) {
            out.line(line);
        }
    }
    if let Some(best) = run.best_step.filter(|step| *step > 0) {
        out.line("");
        out.line(
            out.paint
                .of(Tone::Strong, "from the initial to the best skill"),
        );
        for line in changes(found.folder.root(), 0, best, out.paint)? {
            out.line(line);
        }
    }
    Ok(())
}

/// The headline of a run that can never go on.
fn failure_lines(notice: &Notice) -> Headline {
    let cause = notice.cause.as_deref().unwrap_or("nobody wrote down why");
    let fix = notice.fix.as_deref();
    Headline {
        first: format!("Stopped: {}.", cause.trim_end_matches('.')),
        second: fix
            .unwrap_or("Put that right, then start a new run with another --out.")
            .to_owned(),
    }
}

/// Shows why a run is not going on, what is kept, and what helps.
fn show_notice(found: &Found, notice: &Notice, kept: &str, out: &Out) {
    let mut first = out.paint.of(Tone::Warn, &notice.state);
    if let Some(ms) = notice.at_unix_ms {
        first.push_str(&format!(", {}", process::date(ms)));
    }
    match &notice.cause {
        // A person knows why.
        Some(cause) if cause != "interrupted" => first.push_str(&format!(": {cause}")),
        None if notice.state == "stopped" => first.push_str(": its process is gone"),
        _ => {}
    }
    out.line(first);
    out.line(match (notice.can_go_on(), &found.cluster_run) {
        (true, None) => format!("kept: {kept}; the same command goes on from here"),
        (true, Some(id)) => format!("kept: {kept}; `skillopt resume {id}` goes on from here"),
        (false, _) => format!("kept: {kept}"),
    });
    if let Some(fix) = &notice.fix {
        out.line(format!("{}: {fix}", out.paint.of(Tone::Name, "fix")));
    }
    out.line("");
}

fn show_evaluation(found: &Found, row: &EvaluationRow, out: &Out) {
    let lines = evaluation_headline(row);
    if out.json {
        out.object(
            "evaluation",
            json!({"headline": lines, "evaluation": row, "notice": found.notice}),
        );
        return;
    }
    if let Some(notice) = &found.notice {
        show_notice(found, notice, "all answers so far", out);
    }
    out.line(format!(
        "{}   {}",
        out.paint.of(Tone::Strong, &lines.first),
        row.state
    ));
    out.line(&lines.second);
    out.line(match row.tokens {
        Some(tokens) => spent(tokens),
        None => "calls and tokens: —".to_owned(),
    });
}

/// Says what a step or an evaluation cost; no calls means that nobody counted.
fn spent(tokens: TokenRow) -> String {
    match tokens.calls {
        0 => "calls and tokens: —".to_owned(),
        calls => format!(
            "{}, {} tokens sent, {} received",
            plural(calls, "call"),
            amount(tokens.prompt_tokens),
            amount(tokens.completion_tokens)
        ),
    }
}

fn rows(steps: &[StepRow]) -> Vec<Vec<String>> {
    let head = [
        "step", "", "decision", "val", "change", "train", "edits", "tokens", "why",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(steps.iter().map(|row| {
        let number = |n: Option<u64>| n.map_or_else(|| "—".to_owned(), |n| n.to_string());
        vec![
            if row.slow {
                "slow".to_owned()
            } else {
                row.step.to_string()
            },
            row.verdict.mark().to_string(),
            row.verdict.word().to_owned(),
            share(row.score),
            row.change.map_or_else(|| "—".to_owned(), points),
            share(row.rollout),
            number(row.edits),
            match row.tokens.prompt_tokens + row.tokens.completion_tokens {
                0 => "—".to_owned(),
                n => amount(n),
            },
            row.reason(),
        ]
    }));
    rows
}

fn show_step(found: &Found, step: u64, out: &Out) -> Result<(), Failure> {
    let of_step = |row: &&StepRow| row.step == step;
    let rows: Vec<&StepRow> = found.view.steps.iter().filter(of_step).collect();
    let Some(row) = rows.iter().find(|row| !row.slow) else {
        return Err(no_step(&found.view, step));
    };
    let edits = step_changes(found, row)?;
    if out.json {
        out.object(
            "step",
            json!({"step": row, "reason": row.reason(), "diff": edits(Paint(false))}),
        );
        return Ok(());
    }
    let verdict = format!("{} {}", row.verdict.mark(), row.verdict.word());
    let tone = if row.verdict == Verdict::Accepted {
        Tone::Good
    } else {
        Tone::Strong
    };
    out.line(format!(
        "step {step} of {}, epoch {}: {}",
        number(found.view.run.steps_total),
        row.epoch,
        out.paint.of(tone, &verdict)
    ));
    out.line(row.reason());
    let budget = row
        .edit_budget
        .map_or_else(String::new, |b| format!(" (at most {b})"));
    out.line(format!(
        "{} on {}; {}, {}{budget}",
        share(row.rollout),
        plural(row.rollout_n.unwrap_or(0), "train rollout"),
        plural(row.patches.unwrap_or(0), "proposal"),
        plural(row.edits.unwrap_or(0), "edit")
    ));
    out.line(spent(row.tokens));
    for line in edits(out.paint) {
        out.line(line);
    }
    for slow in rows.iter().filter(|row| row.slow) {
        out.line(format!(
            "then the slow update of epoch {}: {} {}, {}",
            slow.epoch,
            slow.verdict.mark(),
            slow.verdict.word(),
            slow.reason()
        ));
    }
    Ok(())
}

fn no_step(view: &RunView, step: u64) -> Failure {
    if view.evaluation.is_some() {
        return Failure::usage("this is an evaluation, which has no steps");
    }
    let (done, total) = (view.run.steps_done, view.run.steps_total);
    let failure = Failure::usage(format!(
        "step {step} is not there; {done} of {} steps are done",
        number(total)
    ));
    match (total, done) {
        (Some(total), _) if step > total => failure.hint(format!(
            "the run has {}; the last one is `--step {done}`",
            plural(total, "step")
        )),
        (_, 0) => failure,
        _ => failure.hint(format!("`--step` takes 1 to {done} now")),
    }
}

/// What the step's candidate changed; a refused one is shown too.
pub(crate) fn step_changes(
    found: &Found,
    row: &StepRow,
) -> Result<impl Fn(Paint) -> Vec<String>, Failure> {
    let candidate = format!("steps/step_{:04}/candidate_skill.md", row.step);
    let has_candidate = found.folder.root().join(&candidate).exists();
    let texts = if has_candidate {
        let before = found.text(&snapshot(row.step.saturating_sub(1)))?;
        Some((before, found.text(&candidate)?))
    } else {
        None
    };
    Ok(move |paint| match &texts {
        Some((old, new)) => diff(old, new, paint),
        None => Vec::new(),
    })
}

fn snapshot(step: u64) -> String {
    format!("skills/skill_v{step:04}.md")
}

/// Returns what changed between two snapshots of a run, the best skill for the later one.
///
/// # Errors
/// A snapshot cannot be read.
pub(crate) fn changes(
    run: &Path,
    from: u64,
    to: u64,
    paint: Paint,
) -> Result<Vec<String>, Failure> {
    let old = text_file(&run.join(snapshot(from)))?;
    let best = run.join("best_skill.md");
    let new = if best.exists() {
        best
    } else {
        run.join(snapshot(to))
    };
    let lines = diff(&old, &text_file(&new)?, paint);
    Ok(if lines.is_empty() {
        vec!["nothing changed".to_owned()]
    } else {
        lines
    })
}
