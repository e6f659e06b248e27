//! Files that come back.

use skillopt_sandbox::{Limits, Task};

use crate::support::{Place, block_on, everywhere, shell};

everywhere! {
    files_come_back_by_pattern => patterns;
    only_ordinary_files_are_taken => traps;
}

fn run(place: &Place, script: &str, collect: &[&str], max: u64) -> (Vec<String>, Vec<String>) {
    let task = Task {
        collect: collect
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect(),
        ..shell(script)
    };
    let limits = Limits {
        collected_bytes: max,
        ..Limits::default()
    };
    let mut room = place.room(limits);
    let report = block_on(async { room.run(&task, &mut |_| {}).await }).unwrap();
    let files = report.files.iter().map(|file| {
        let text = String::from_utf8_lossy(&file.bytes);
        format!("{}: {}", file.path.display(), text.trim())
    });
    let refused = report.refused.iter();
    let refused = refused.map(|file| format!("{}: {}", file.path.display(), file.why));
    (files.collect(), refused.collect())
}

fn patterns(place: &Place) {
    let script = "mkdir -p out/deep; echo 1 > answer.txt; echo 2 > out/a.json; \
                  echo 3 > out/deep/b.json; echo 4 > other";
    let (files, refused) = run(place, script, &["answer.txt", "**/*.json", "none"], 99);
    assert_eq!(
        files,
        ["answer.txt: 1", "out/a.json: 2", "out/deep/b.json: 3"]
    );
    assert_eq!(refused, [""; 0]);
}

fn traps(place: &Place) {
    let secret = place.dir.path().join("secret");
    std::fs::write(&secret, "gold").unwrap();
    let script = format!(
        "ln -s {} link; ln -s /etc folder; ln -s . loop; mkfifo pipe; ln -s /dev/zero zero; \
         echo ok > fine; echo two > one; ln one two; head -c 2000 /dev/zero > large; \
         mkdir shut; echo x > shut/file; chmod 0 shut/file",
        secret.display()
    );
    let (files, refused) = run(place, &script, &["*", "*/*"], 1000);
    let mut wanted = vec!["fine: ok".to_owned()];
    let mut reasons = vec![
        "folder: a symbolic link",
        "large: larger than the 997 bytes that were left",
        "link: a symbolic link",
        "loop: a symbolic link",
        "one: it has another name elsewhere (a hard link)",
        "pipe: a named pipe",
        "two: it has another name elsewhere (a hard link)",
        "zero: a symbolic link",
    ];
    // The superuser reads what nobody may.
    if nix::unistd::geteuid().is_root() {
        wanted.push("shut/file: x".to_owned());
    } else {
        reasons.insert(6, "shut/file: Permission denied");
    }
    assert_eq!(files, wanted);
    assert_eq!(refused, reasons);
}
