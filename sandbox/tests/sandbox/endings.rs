//! How a run ends, and what is told of it.

use std::time::Duration;

use skillopt_sandbox::{Ending, Error, Limits, Stream, Task};

use crate::support::{Place, block_on, everywhere, said, shell};

everywhere! {
    a_programs_own_end_is_told => own_end;
    a_signal_of_ours_is_a_timeout => timeout;
    input_is_given_and_closed => input;
    lines_are_handed_on_while_it_runs => lines;
    a_task_that_cannot_begin_is_an_error => errors;
    a_room_can_be_used_again => again;
    fifty_run_at_once => fifty;
}

fn own_end(place: &Place) {
    for (script, wanted) in [
        ("exit 0", Ending::Exited(0)),
        ("exit 7", Ending::Exited(7)),
        ("kill -9 $$", Ending::Signalled(9)),
        ("kill -TERM $$", Ending::Signalled(15)),
        ("kill -SEGV $$", Ending::Signalled(11)),
        // Whoever keeps it cannot be killed by it.
        ("kill -9 $PPID; exit 6", Ending::Exited(6)),
        // A real-time signal has no name.
        ("kill -40 $$", Ending::Signalled(40)),
    ] {
        assert_eq!(place.sh(script).ending, wanted, "{script}");
    }
    let report =
        place.sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo err >&2; echo out");
    assert_eq!(report.stdout.text(), "out\n");
    assert_eq!(report.stderr.text(), "err\n");
    assert!(report.cpu > Duration::ZERO && report.wall > Duration::ZERO);
    assert!(report.peak_memory_bytes > 0, "{report:?}");
}

fn timeout(place: &Place) {
    let limits = |grace| Limits {
        wall: Duration::from_millis(300),
        grace: Duration::from_millis(grace),
        ..Limits::default()
    };
    // It ends well when it is asked to, and that is not its own end all the same.
    let polite = place.sh_within(
        "trap 'echo bye; exit 0' TERM; echo hi; sleep 300 & wait",
        limits(20_000),
    );
    assert_eq!(polite.ending, Ending::TimedOut);
    assert_eq!(polite.stdout.text(), "hi\nbye\n");
    let stubborn = place.sh_within("trap '' TERM; while :; do sleep 300; done", limits(50));
    assert_eq!(stubborn.ending, Ending::TimedOut);
}

fn input(place: &Place) {
    let run = |script: &str, stdin: Vec<u8>| {
        let task = Task {
            stdin,
            ..shell(script)
        };
        let mut room = place.room(Limits::default());
        block_on(async { room.run(&task, &mut |_| {}).await }).unwrap()
    };
    assert_eq!(
        said(&run("cat; echo end", b"question\n".to_vec())),
        "question\nend\n"
    );
    let much = vec![b'x'; 3_000_000];
    assert_eq!(said(&run("wc -c", much.clone())), "3000000\n");
    // One that does not read it ends all the same.
    assert_eq!(run("exec 0<&-; exit 4", much).ending, Ending::Exited(4));
}

fn lines(place: &Place) {
    let mut seen = Vec::new();
    let limits = Limits {
        line_bytes: 10,
        ..Limits::default()
    };
    let mut room = place.room(limits);
    let task = shell("echo one; echo two >&2; printf 'a very long line\\nthree'");
    let mut on_line = |line: skillopt_sandbox::Line<'_>| {
        let text = String::from_utf8_lossy(line.bytes).into_owned();
        seen.push((line.stream == Stream::Err, text, line.is_cut));
    };
    block_on(async { room.run(&task, &mut on_line).await }).unwrap();
    seen.sort();
    let line = |is_err, text: &str, is_cut| (is_err, text.to_owned(), is_cut);
    let wanted = [
        line(false, "a very lon", true),
        line(false, "one", false),
        line(false, "three", false),
        line(true, "two", false),
    ];
    assert_eq!(seen, wanted);
}

fn errors(place: &Place) {
    let mut room = place.room(Limits::default());
    let mut run = |task: Task| block_on(async { room.run(&task, &mut |_| {}).await }).unwrap_err();
    let program = |program: &str| Task {
        program: program.to_owned(),
        ..shell("true")
    };
    let missing = run(program("no-such-program-of-ours"));
    assert!(matches!(missing, Error::Program { .. }), "{missing}");
    assert!(missing.to_string().contains("no-such-program-of-ours"));
    assert!(matches!(run(program("/etc")), Error::Program { .. }));
    assert!(matches!(run(program("")), Error::Task(_)));
    let shown = |path: &std::path::Path| Task {
        read_only: vec![path.to_path_buf()],
        ..shell("true")
    };
    for path in [
        std::path::Path::new("/"),
        place.dir.path(),
        "relative".as_ref(),
    ] {
        let error = run(shown(path));
        assert!(
            matches!(error, Error::Task(_)),
            "{}: {error}",
            path.display()
        );
    }
}

fn again(place: &Place) {
    let mut room = place.room(Limits::default());
    let mut run = |script: &str| {
        let report = block_on(async { room.run(&shell(script), &mut |_| {}).await });
        said(&report.unwrap())
    };
    assert_eq!(run("echo first > note"), "");
    assert_eq!(run("cat note"), "first\n");
}

fn fifty(place: &Place) {
    let mut rooms: Vec<_> = (0..50).map(|_| place.room(Limits::default())).collect();
    let reports = block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for (number, mut room) in rooms.drain(..).enumerate() {
            all.spawn(async move {
                let task = shell(&format!("echo {number} > file; cat file"));
                room.run(&task, &mut |_| {})
                    .await
                    .map(|report| (number, report))
            });
        }
        all.join_all().await
    });
    for report in reports {
        let (number, report) = report.unwrap();
        assert_eq!(said(&report), format!("{number}\n"));
    }
}
