//! Skills to start from.

use std::fs::File;

use skillopt_tests::support::{Sim, World};

use crate::refused;

const ARGS: &[&str] = &["--set", "env.skill_init=skill.md"];

#[test]
fn a_missing_skill_is_named() {
    refused(
        &World::new(),
        ARGS,
        &["`skill.md` does not exist", "env.skill_init"],
    );
}

#[test]
fn a_skill_of_100_mb_is_refused_unread() {
    let world = World::new();
    File::create(world.path("skill.md"))
        .unwrap()
        .set_len(100 << 20)
        .unwrap();
    refused(
        &world,
        ARGS,
        &["`skill.md` is too large", "104857600 bytes"],
    );
}

#[test]
fn a_binary_skill_is_refused() {
    for content in [&b"\x7fELF\x02\x01\x01\0\0"[..], b"# Skill\n\xff\xfe rest\n"] {
        let world = World::new();
        world.write("skill.md", content);
        refused(&world, ARGS, &["`skill.md` is not UTF-8 text"]);
    }
}

#[test]
fn a_skill_folder_without_a_document_is_refused() {
    let world = World::new();
    world.write("skill.md/notes.md", "hello");
    refused(&world, ARGS, &["skill folder `skill.md` has no `SKILL.md`"]);
}

#[test]
fn an_empty_skill_is_the_blank_one() {
    let (world, sim) = (World::new(), Sim::start(&[]));
    world.write("skill.md", "");
    let run = world.trained("out", &sim.url(), ARGS);
    assert_eq!(
        std::fs::read(run.join("skills/skill_v0000.md")).unwrap(),
        b""
    );
    assert!(run.join("best_skill.md").exists());
}
