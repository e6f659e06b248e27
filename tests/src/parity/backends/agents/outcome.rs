//! What a run comes to, in the terms of the reference.

use serde_json::Value;
use skillopt_agents::run::Finished;
use skillopt_agents::verdict::Verdict;
use skillopt_backends::CallError;
use skillopt_runtime::redact::likely;

use super::rig::TOKENS;
use super::scene::{Made, Scene};
use super::script::{Run, Step};
use super::text;

/// Returns whether a run was ended for its time.
pub(super) fn is_cut(finished: &Finished) -> bool {
    let said = match &finished.verdict {
        Verdict::Failed(why) => why.clone(),
        // One that never asked its model is not judged for it.
        Verdict::NotJudged(error) => error.to_string(),
        Verdict::Answered(_) => return false,
    };
    said.contains("not done within")
}

/// Compares a refusal of the configuration: an unknown word is refused wherever it stands, in a file
/// or a variable, and by its name.
pub(super) fn refused(case: &Value, refused: &str) -> Result<(), String> {
    let expected = &case["expected_result"];
    let wanted = [&expected["setup_error"], &expected["error"]];
    let setting = wanted.iter().find_map(|error| error["setting"].as_str());
    // A variable that opens everything is closed by a typo, to the reference; we say that it is one.
    let id = text(&case["id"]);
    let setting = setting.or_else(|| {
        id.ends_with("/optin_unknown_env_is_off")
            .then_some("copilot_exec_allow_all_tools")
    });
    let Some(setting) = setting else {
        return Err(format!("the configuration is refused: {refused}"));
    };
    let variable = setting.to_uppercase();
    if refused.contains(setting) || refused.contains(&variable) {
        Ok(())
    } else {
        Err(format!("refused, but not for `{setting}`: {refused}"))
    }
}

/// What has no effect is told before anything is spent: one remark at least where the reference warns
/// or would need a part that we do not have.
pub(super) fn remarks(scene: &Scene, seen: usize) -> Result<(), String> {
    let config = &scene.case["input"]["config"];
    let sdk = text(&config[format!("{}_use_sdk", scene.backend)]);
    let has_home = scene.backend == "copilot_exec" && config["copilot_exec_home"].is_string();
    let is_retired = scene.case["input"]["call"]["full_auto"] == true;
    if (sdk == "sdk" || has_home || is_retired) && seen == 0 {
        return Err("nothing is said of a setting without effect".to_owned());
    }
    Ok(())
}

/// Compares what came of every turn.
pub(super) fn compare(scene: &Scene, made: &Made) -> Result<(), String> {
    let expected = &scene.case["expected_result"];
    let listed = expected["results"].as_array();
    for (at, runs) in made.turns.iter().enumerate() {
        let wanted = listed.map_or(expected, |listed| &listed[at]);
        let Some((last, _)) = runs.last() else {
            return Err("nothing was run".to_owned());
        };
        one(scene, wanted, last)?;
        for (finished, _) in runs {
            tools(scene, finished)?;
        }
    }
    tokens(scene, made)
}

fn one(scene: &Scene, wanted: &Value, seen: &Result<Finished, CallError>) -> Result<(), String> {
    let error = &wanted["error"];
    let kind = text(&error["kind"]);
    if let Err(refused) = seen {
        let path = text(&error["path"]);
        let is_missing = kind == "spawn_failed" && refused.to_string().contains(path);
        let differs = || format!("refused: {refused}");
        return if is_missing { Ok(()) } else { Err(differs()) };
    }
    let Ok(finished) = seen else { return Ok(()) };
    let wanted = if scene.case["reference_bug"] == true {
        right(scene, wanted)
    } else {
        unmarked(scene, wanted)
    };
    let differs = || {
        let (verdict, account) = (&finished.verdict, &finished.account);
        Err(format!(
            "it came to {verdict:?}, wanted {wanted:?}; {account:?}"
        ))
    };
    let is_same = match (&wanted, &finished.verdict) {
        (Wanted::Answer(words), Verdict::Answered(text)) => is_answer(words, text),
        (Wanted::OutOfTime, _) => is_cut(finished),
        (Wanted::NotJudged(words), Verdict::NotJudged(error)) => {
            let said = error.to_string();
            let is_clean = likely(&said) == said;
            let said = said.to_lowercase();
            // Credentials are masked by one word of ours.
            let words = words.to_lowercase();
            let mut parts = words.split("[redacted]");
            parts.all(|part| said.contains(part.trim())) && is_clean
        }
        _ => false,
    };
    if is_same { Ok(()) } else { differs() }
}

#[derive(Debug)]
enum Wanted {
    Answer(String),
    OutOfTime,
    /// Its words stand in the error.
    NotJudged(String),
}

/// The answer is what was said last: the reference has Copilot's words on the way in front of it
/// (exec-CLIs spec 6.2; they stand in the trajectory).
fn is_answer(wanted: &str, seen: &str) -> bool {
    let wanted = wanted.trim();
    seen.trim() == wanted || (!seen.is_empty() && wanted.ends_with(&format!("\n{}", seen.trim())))
}

fn unmarked(scene: &Scene, wanted: &Value) -> Wanted {
    let error = &wanted["error"];
    let detail = text(&error["detail"]).to_owned();
    let answer = Wanted::Answer(text(&wanted["ok"]["response"]).to_owned());
    match text(&error["kind"]) {
        "" if last_step(scene) == Some(Step::Fails("error_during_execution".to_owned())) => {
            Wanted::NotJudged(String::new())
        }
        "" => answer,
        "timeout" => Wanted::OutOfTime,
        // An agent that twice says nothing has said nothing; its benchmark lets it fail for that.
        "empty_response" => Wanted::Answer(String::new()),
        // There is no SDK to be missing, and no answer key in sight.
        "missing_module" | "denied_data_dir" => Wanted::Answer("<answer>B</answer>".to_owned()),
        _ => Wanted::NotJudged(detail),
    }
}

/// What is right where the reference is wrong: a blank answer is an empty one, time that is over is
/// told as that, and an end that is none is no answer (spec 8, points 5 and 9).
fn right(scene: &Scene, wanted: &Value) -> Wanted {
    match last_step(scene) {
        Some(Step::Stays) => Wanted::OutOfTime,
        Some(Step::Says { words, .. }) if words.is_empty() => Wanted::Answer(String::new()),
        Some(Step::Says { .. }) => unmarked(scene, wanted),
        Some(Step::Ends(_)) => Wanted::NotJudged(stderr(scene).trim().to_owned()),
        Some(Step::Fails(why)) => Wanted::NotJudged(why),
        None => unmarked(scene, wanted),
    }
}

/// Returns the step that decides: the last that is run, or the first that is not run again.
fn last_step(scene: &Scene) -> Option<Step> {
    let script = scene.case["response"]["script"].as_array()?;
    let steps = script.iter().map(|raw| Run::of(&scene.backend, raw).step);
    let mut last = None;
    for step in steps {
        let goes_on = matches!(&step, Step::Says { words, .. } if words.is_empty());
        last = Some(step);
        if !goes_on {
            break;
        }
    }
    last
}

fn stderr(scene: &Scene) -> String {
    let script = scene.case["response"]["script"].as_array();
    let last = script.and_then(|steps| steps.last());
    last.map_or("", |step| text(&step["stderr"])).to_owned()
}

/// What the reference reads from a log stands in the events: each command, and whether it worked.
fn tools(scene: &Scene, finished: &Result<Finished, CallError>) -> Result<(), String> {
    let Ok(finished) = finished else {
        return Ok(());
    };
    let files = scene.case["expected_result"]["files_after"].as_object();
    let summaries = files.into_iter().flatten();
    let mut summaries = summaries.map(|(_, file)| &file["summary_fields"]);
    let Some(summary) = summaries.find(|fields| fields.is_object()) else {
        return Ok(());
    };
    let Verdict::Answered(words) = &finished.verdict else {
        return Ok(());
    };
    let read = [&summary["read_task_md"], &summary["read_skill_md"]];
    let known = read
        .iter()
        .filter(|word| matches!(text(word), "success" | "failed"));
    let known: Vec<bool> = known.map(|word| text(word) == "success").collect();
    let seen = finished.account.tool_calls.iter().map(|tool| tool.ok);
    let seen: Vec<bool> = seen.collect();
    if scene.backend == "codex_exec" && !words.is_empty() && !known.is_empty() && known != seen {
        return Err(format!("its commands worked: {seen:?}, wanted {known:?}"));
    }
    if let Some(started) = summary["tool_calls"].as_str()
        && started != seen.len().to_string()
    {
        return Err(format!("{} tools, wanted {started}", seen.len()));
    }
    Ok(())
}

/// Every question that reached the model is counted, as the model counted it (spec 6, number 38): the
/// reference counts agents' tokens as none.
fn tokens(scene: &Scene, made: &Made) -> Result<(), String> {
    if scene.backend == "cursor_exec" {
        return Ok(());
    }
    let all = made.turns.iter().flatten();
    let finished = all.filter_map(|(finished, _)| finished.as_ref().ok());
    let sum = finished.fold((0, 0), |sum, done| {
        let tokens = done.record.tokens;
        (sum.0 + tokens.input, sum.1 + tokens.output)
    });
    let asked = u64::try_from(made.asked).unwrap_or(0);
    if sum != (TOKENS.0 * asked, TOKENS.1 * asked) {
        return Err(format!("{sum:?} tokens of {asked} questions"));
    }
    if asked == 0 && made.turns.iter().flatten().any(answered) {
        return Err("its model was asked nothing".to_owned());
    }
    Ok(())
}

fn answered(run: &(Result<Finished, CallError>, Option<super::fake::Seen>)) -> bool {
    matches!(&run.0, Ok(done) if matches!(done.verdict, Verdict::Answered(_)))
}
