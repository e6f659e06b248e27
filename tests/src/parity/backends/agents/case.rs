//! One case of an agent: its settings, its folder, its runs, and what came of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use skillopt_agents::run::Finished;
use skillopt_agents::verdict::Verdict;
use skillopt_backends::{
    CallError, ChatRequest, Disposition, Gate, Message, Open, Role as Speaker, Workspace,
};
use skillopt_benchmarks::agent::Desk;
use skillopt_core::job::Profile;
use skillopt_core::role::Role;

use super::fake::{Fake, Seen};
use super::rig::{self, Rig};
use super::scene::{Made, Scene};
use super::script::{Run, Step};
use super::{call, folder, outcome, text, texts};
use crate::parity::backends::setup::{Places, Setup};
use crate::parity::backends::sign_in::FakeAz;

/// A model for a case that names none: ours refuses an agent without one, for its relay lets out one
/// model alone.
const MODEL: &str = "m1";

/// Settings that no agent can have, with the values that ask for them: they are refused before
/// anything is started, with what replaces them.
const CANNOT_BE_HAD: &[(&str, &str)] = &[
    ("codex_exec_sandbox", "read-only"),
    ("codex_exec_network_access", "true"),
    ("codex_exec_web_search", "true"),
    ("codex_exec_profile", ""),
];

/// Runs one case.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    runtime.block_on(judge(case))
}

async fn judge(case: &Value) -> Result<(), String> {
    let rig = Rig::start().await?;
    let mut scene = Scene::new(case)?;
    if let Some(wrong) = talks(&scene, &rig).await {
        return wrong;
    }
    let setup = match scene.setup(&rig) {
        Ok(setup) => setup,
        Err(refused) => return outcome::refused(&scene.case, &refused),
    };
    outcome::remarks(&scene, setup.warnings)?;
    let profile = scene.profile(&setup);
    // The variables of the environment count where the configuration says nothing.
    if let Some(path) = scene.stray_path() {
        let refused = refusal(&scene, &setup, &profile);
        if !refused.contains(&path) {
            return Err(format!("`{path}` does not count: {refused:?}"));
        }
        scene.bring_path_home();
        return Box::pin(judge(&scene.case)).await;
    }
    let asked_for = scene.cannot_be_had();
    if !asked_for.is_empty() {
        let refused = refusal(&scene, &setup, &profile);
        if let Some(key) = asked_for.iter().find(|key| !refused.contains(*key)) {
            return Err(format!("`{key}` is not refused: {refused:?}"));
        }
        // The rest of the case counts without them.
        scene.drop_settings(&asked_for);
        return Box::pin(judge(&scene.case)).await;
    }
    if profile.model.is_empty() && scene.backend != "cursor_exec" {
        let refused = refusal(&scene, &setup, &profile);
        if !refused.contains("model.target") {
            return Err(format!(
                "an agent without a model is not refused: {refused:?}"
            ));
        }
        scene.case["input"]["call"]["model"] = MODEL.into();
        return Box::pin(judge(&scene.case)).await;
    }
    let made = scene.make(&rig, setup, &profile).await?;
    invocations(&scene, &made, &profile)?;
    outcome::compare(&scene, &made)
}

/// A conversation with an agent, or a task for a model that only talks, is refused with what to do;
/// `None` for other cases.
async fn talks(scene: &Scene, rig: &Rig) -> Option<Result<(), String>> {
    let call = &scene.case["input"]["call"];
    let is_chat = call["op"] == "chat";
    let is_agent = skillopt_agents::Agent::is_known(&scene.backend);
    if is_agent && !is_chat {
        return None;
    }
    let setup = match scene.setup(rig) {
        Ok(setup) => setup,
        Err(why) => return Some(Err(why)),
    };
    let profile = scene.profile(&setup);
    let request = scene.request("u", &profile);
    let seen = if is_agent {
        use skillopt_backends::ChatModel as _;
        let fake = scene
            .fake
            .prepare(&Run::of(&scene.backend, &Value::Null), &[], None);
        if let Err(e) = fake {
            return Some(Err(e.to_string()));
        }
        let mut profile = profile;
        profile.model = MODEL.to_owned();
        match rig::agent(&setup, &profile, scene.fake.bin()) {
            Ok(agent) => agent.chat(&request).await.map(|_| ()),
            Err(error) => Err(error),
        }
    } else {
        match setup.connect(&profile, Role::Target) {
            Ok(client) => {
                let gate: Arc<dyn Gate> = Arc::new(Open);
                let done = client.work(&request, &Workspace::default(), &gate).await;
                done.map(|_| ())
            }
            // Without an address there is nobody to ask, either.
            Err(error) => Err(error),
        }
    };
    Some(match seen {
        Err(CallError::Misconfigured { .. }) => Ok(()),
        other => Err(format!("it was not refused: {other:?}")),
    })
}

/// What an agent that cannot be made says; empty if it can.
fn refusal(scene: &Scene, setup: &Setup, profile: &Profile) -> String {
    match rig::agent(setup, profile, scene.fake.bin()) {
        Err(CallError::Misconfigured { detail, .. }) => detail,
        _ => String::new(),
    }
}

impl Scene {
    pub(super) fn new(case: &Value) -> Result<Self, String> {
        let work = tempfile::tempdir().map_err(|e| e.to_string())?;
        let fake = Fake::new().map_err(|e| e.to_string())?;
        let nowhere = Places::new(([127, 0, 0, 1], 9).into());
        let case = nowhere.fill(case);
        let filled = case
            .to_string()
            .replace("{{work}}", &work.path().display().to_string())
            .replace("{{bin}}", &fake.bin().display().to_string());
        let case: Value = serde_json::from_str(&filled).map_err(|e| e.to_string())?;
        let id = text(&case["id"]);
        let backend = match text(&case["input"]["env"]["TARGET_BACKEND"]) {
            "" => text(&case["backend"]),
            named => named,
        };
        let scene = Self {
            backend: backend.to_owned(),
            fake,
            work,
            case: case.clone(),
        };
        folder::lay_out(&scene).map_err(|e| format!("{id}: {e}"))?;
        Ok(scene)
    }

    fn setup(&self, rig: &Rig) -> Result<Setup, String> {
        let mut case = self.case.clone();
        let input = &mut case["input"];
        if !input["config"].is_object() {
            input["config"] = Map::new().into();
        }
        // What the reference takes as an argument of each call is a setting of the run.
        if let Some(sandbox) = input["call"]["sandbox"].as_str() {
            let sandbox = sandbox.to_owned();
            input["config"][format!("{}_sandbox", self.backend)] = sandbox.into();
        }
        if input["call"]["full_auto"] == true {
            input["config"]["codex_exec_full_auto"] = true.into();
        }
        if let Some(config) = input["config"].as_object_mut() {
            config.extend(rig.settings(&self.backend));
        }
        let az = FakeAz::new(&case);
        Setup::new(&case, &az)
    }

    fn profile(&self, setup: &Setup) -> Profile {
        let mut profile = setup.profile(Role::Target);
        if let Some(model) = self.case["input"]["call"]["model"].as_str() {
            // A prefix of a router of models is cut off by hand: a provider takes its own names.
            model
                .trim_start_matches("anthropic/")
                .clone_into(&mut profile.model);
        }
        profile
    }

    /// Returns a program that a variable or a setting names and that is not there, where the reference
    /// starts another one all the same.
    fn stray_path(&self) -> Option<String> {
        let key = format!("{}_path", self.backend);
        let input = &self.case["input"];
        let path = input["config"][&key].as_str();
        let path = path.or(input["env"][key.to_uppercase()].as_str())?;
        let is_wanted = self.case["expected_result"]["error"]["kind"] == "spawn_failed";
        (!is_wanted && !Path::new(path).exists()).then(|| path.to_owned())
    }

    fn bring_path_home(&mut self) {
        let key = format!("{}_path", self.backend);
        let program = format!("{{{{bin}}}}/{}", self.program());
        let config = &mut self.case["input"]["config"];
        if config[&key].is_string() {
            config[&key] = program.into();
            return;
        }
        let env = &mut self.case["input"]["env"];
        env[key.to_uppercase()] = program.into();
        // The other variables count, too: what they say is what is wanted.
        let said = |name: &str| env[name].as_str().map(str::to_owned);
        let (effort, tokens) = (
            said("CLAUDE_CODE_EXEC_EFFORT"),
            said("CLAUDE_CODE_EXEC_MAX_THINKING_TOKENS"),
        );
        let argv = self.case["expected_request"]["invocations"][0]["argv"].as_array_mut();
        let Some(argv) = argv else { return };
        for (flag, value) in [("--effort", effort), ("--max-thinking-tokens", tokens)] {
            let at = argv.iter().position(|word| word == flag);
            if let (Some(at), Some(value)) = (at, value) {
                argv[at + 1] = value.into();
            }
        }
    }

    fn program(&self) -> &'static str {
        match self.backend.as_str() {
            "codex_exec" => "codex",
            "claude_code_exec" => "claude",
            "copilot_exec" => "copilot",
            _ => "cursor-agent",
        }
    }

    fn cannot_be_had(&self) -> Vec<String> {
        let input = &self.case["input"];
        let value = |key: &str| match &input["config"][key] {
            Value::Null => input["env"][key.to_uppercase()].clone(),
            value => value.clone(),
        };
        let mut keys = Vec::new();
        for (key, never) in CANNOT_BE_HAD {
            let mut value = value(key);
            if *key == "codex_exec_sandbox" && input["call"]["sandbox"].is_string() {
                value = input["call"]["sandbox"].clone();
            }
            let word = match &value {
                Value::Bool(yes) => yes.to_string(),
                value => text(value).to_owned(),
            };
            let is_it = !word.is_empty() && (never.is_empty() || word == *never);
            if is_it && key.starts_with(&self.backend) {
                keys.push((*key).to_owned());
            }
        }
        keys
    }

    fn drop_settings(&mut self, keys: &[String]) {
        let input = &mut self.case["input"];
        for key in keys {
            for (place, name) in [("config", key.clone()), ("env", key.to_uppercase())] {
                if let Some(map) = input[place].as_object_mut() {
                    map.remove(&name);
                }
            }
        }
        if let Some(call) = input["call"].as_object_mut()
            && keys.iter().any(|key| key.ends_with("_sandbox"))
        {
            call.remove("sandbox");
        }
    }

    fn request(&self, prompt: &str, profile: &Profile) -> ChatRequest {
        let seconds = self.case["input"]["call"]["timeout"]
            .as_f64()
            .unwrap_or(20.0);
        let messages = vec![Message::text(Speaker::User, prompt)];
        let timeout = Duration::from_secs_f64(seconds);
        ChatRequest::new(&profile.model, messages, 16_384, timeout)
    }

    /// Returns the folder of the task.
    pub(super) fn workspace(&self) -> Result<Workspace, String> {
        let input = &self.case["input"];
        let given = &input["workspace"];
        let none = std::collections::BTreeMap::new();
        let desk = Desk::new(text(&given["skill"]), "How to do it.", &none);
        let mut desk = desk.task(text(&given["task_text"]));
        let images: Vec<PathBuf> = texts(&input["call"]["images"])
            .iter()
            .map(PathBuf::from)
            .collect();
        desk = desk.attach(&images).map_err(|e| e.to_string())?;
        for (name, path) in self.data() {
            desk = desk.copy_folder(&path, &name).map_err(|e| e.to_string())?;
        }
        if input["call"]["allow_file_edits"] == true {
            desk = desk.wants(&["result.txt"]);
        }
        Ok(desk.into_workspace())
    }

    /// Returns the folders that the agent may read. The reference looks for names of answer keys in a
    /// list; we give it files by name, so that there is nothing to look for (spec 6, number 29).
    fn data(&self) -> Vec<(String, PathBuf)> {
        let named = texts(&self.case["input"]["call"]["data_dirs"]);
        let is_denied = self.case["expected_result"]["error"]["kind"] == "denied_data_dir";
        let named = named.iter().filter(|_| !is_denied).map(PathBuf::from);
        let with_name = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, path))
        };
        named.filter_map(with_name).collect()
    }

    /// Runs every turn of the case, as a worker does.
    async fn make(&self, rig: &Rig, setup: Setup, profile: &Profile) -> Result<Made, String> {
        let script = self.case["response"]["script"].as_array().cloned();
        let script = script.unwrap_or_default();
        let workspace = self.workspace()?;
        let call = &self.case["input"]["call"];
        let prompts = match call["prompts"].as_array() {
            Some(prompts) => prompts.iter().map(text).collect(),
            None => vec![text(&call["prompt"])],
        };
        let hidden: Vec<PathBuf> = texts(&call["data_dirs"])
            .iter()
            .map(PathBuf::from)
            .chain([self.work.path().to_path_buf()])
            .collect();
        let mute_again = profile.settings.get("agent_empty_retries");
        let mute_again = mute_again.and_then(Value::as_u64).unwrap_or(1);
        let mut made = Made {
            turns: Vec::new(),
            asked: 0,
            setup,
        };
        let mut at = 0;
        for prompt in prompts {
            let mut runs = Vec::new();
            let mut left = Left {
                mute: mute_again,
                failed: self.retries(),
            };
            loop {
                let step = Run::of(
                    &self.backend,
                    script.get(at).or(script.last()).unwrap_or(&Value::Null),
                );
                at += 1;
                let question = rig::question(&self.backend, &profile.model);
                let question = question.as_ref().map(|(path, body)| (*path, body.as_str()));
                self.fake
                    .prepare(&step, &hidden, question)
                    .map_err(|e| e.to_string())?;
                let finished = match rig::agent(&made.setup, profile, self.fake.bin()) {
                    Ok(agent) => {
                        let request = self.request(prompt, profile);
                        agent.finish(&request, &workspace).await
                    }
                    Err(error) => Err(error),
                };
                let seen = finished
                    .as_ref()
                    .ok()
                    .and_then(|done| Seen::read(&done.stderr));
                let again = left.takes(&finished, &workspace);
                runs.push((finished, seen));
                if !again {
                    break;
                }
            }
            made.turns.push(runs);
        }
        made.asked = rig.asked();
        Ok(made)
    }

    /// Returns how often a turn that cannot be judged is tried again: as often as the reference tries
    /// it. What it wrongly tries again is run once.
    fn retries(&self) -> u64 {
        let listed = self.case["expected_request"]["invocations"].as_array();
        match listed.map_or(0, Vec::len) {
            2.. if self.case["reference_bug"] != true => 1,
            _ => 0,
        }
    }

    /// Returns the names of the folders that the agent may read.
    pub(super) fn data_names(&self) -> Vec<String> {
        self.data().into_iter().map(|(name, _)| name).collect()
    }
}

/// How often a turn may still be run again.
struct Left {
    mute: u64,
    failed: u64,
}

impl Left {
    /// An agent that ended well without a word does its task once more, and what may pass is tried
    /// again, as a worker and its queue have it.
    fn takes(&mut self, finished: &Result<Finished, CallError>, workspace: &Workspace) -> bool {
        let Ok(done) = finished else { return false };
        let left = match &done.verdict {
            Verdict::Answered(text) if text.trim().is_empty() && workspace.collect.is_empty() => {
                &mut self.mute
            }
            Verdict::NotJudged(error) if matches!(error.disposition(), Disposition::Retry(_)) => {
                &mut self.failed
            }
            _ => return false,
        };
        let again = *left > 0;
        *left = left.saturating_sub(1);
        again
    }
}

/// Compares how often, how and where the program was started.
fn invocations(scene: &Scene, made: &Made, profile: &Profile) -> Result<(), String> {
    let listed = scene.case["expected_request"]["invocations"].as_array();
    let listed = listed.map_or(&[][..], Vec::as_slice);
    let data = scene.data_names();
    let wanted = call::Wanted {
        backend: &scene.backend,
        model: &profile.model,
        data: &data,
    };
    let flat = made.turns.iter().flatten();
    for (at, (finished, seen)) in flat.enumerate() {
        let Some(seen) = seen else {
            // A slow machine may reach the deadline before the fake has looked at everything.
            if finished.as_ref().is_ok_and(outcome::is_cut) || listed.is_empty() {
                continue;
            }
            return Err(format!("run {at} told nothing: {finished:?}"));
        };
        if let Some(path) = seen.visible.first() {
            return Err(format!("it sees `{path}`"));
        }
        let Some(invocation) = listed.get(at.min(listed.len().wrapping_sub(1))) else {
            // Where the reference refuses, we may run, for what it refuses is not there to be read.
            continue;
        };
        call::compare(&wanted, invocation, seen).map_err(|why| format!("run {at}: {why}"))?;
        folder::compare(scene, invocation, seen).map_err(|why| format!("run {at}: {why}"))?;
    }
    counts(scene, made, listed.len())
}

/// Compares how often the program was started.
fn counts(scene: &Scene, made: &Made, listed: usize) -> Result<(), String> {
    let ran = made.turns.iter().flatten();
    let ran = ran.filter(|(finished, _)| finished.is_ok()).count();
    let script = scene.case["response"]["script"].as_array();
    let first = script.and_then(|steps| steps.first());
    let first = Run::of(&scene.backend, first.unwrap_or(&Value::Null));
    let is_mute = matches!(&first.step, Step::Says { words, .. } if words.is_empty());
    let kind = text(&scene.case["expected_result"]["error"]["kind"]);
    let want = match kind {
        // No SDK is needed, and answer keys are out of sight anyway.
        "missing_module" | "denied_data_dir" => 1,
        _ if scene.case["reference_bug"] == true && !is_mute => listed.min(made.turns.len().max(1)),
        _ => listed,
    };
    if ran == want {
        Ok(())
    } else {
        Err(format!("{ran} runs, wanted {want}"))
    }
}
