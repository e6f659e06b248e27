//! Programs that take too much.

use std::process::Command;
use std::time::Duration;

use skillopt_sandbox::{Ending, Limit, Limits, Policy};

use crate::support::{Place, everywhere, marked, marker, only, passes};

const MIB: u64 = 1024 * 1024;

everywhere! {
    a_fork_bomb_is_stopped => bomb;
    a_memory_hog_is_stopped => hog;
    processor_time_has_an_end => burner;
    a_filler_of_files_is_stopped => filler;
    endless_output_is_cut_and_stopped => talker;
}

/// Everything here is over after this, even if a limit is not kept.
fn limits() -> Limits {
    Limits {
        wall: Duration::from_secs(90),
        grace: Duration::ZERO,
        ..Limits::default()
    }
}

fn bomb(place: &Place) {
    let marker = marker();
    let script = format!("bomb() {{ bomb {marker} | bomb {marker} & }}; bomb; sleep 300");
    let few = Limits {
        processes: 40,
        ..limits()
    };
    let report = place.sh_within(&script, few);
    assert_eq!(report.ending, Ending::Limit(Limit::Processes));
    assert_eq!(marked(&marker), [0; 0]);
}

fn hog(place: &Place) {
    let little = Limits {
        memory_bytes: 64 * MIB,
        ..limits()
    };
    for script in [
        "exec perl -e '$much = 1 x 300_000_000; sleep 300'",
        // Over before anybody looks.
        "exec perl -e '$much = 1 x 300_000_000'",
        // None of them has much.
        "for i in 1 2 3 4 5 6; do perl -e '$some = 1 x 20_000_000; sleep 300' & done; wait",
    ] {
        let report = place.sh_within(script, little.clone());
        assert_eq!(report.ending, Ending::Limit(Limit::Memory), "{script}");
        assert!(report.peak_memory_bytes > 32 * MIB, "{report:?}");
    }
}

fn burner(place: &Place) {
    let little = Limits {
        cpu: Some(Duration::from_millis(200)),
        ..limits()
    };
    let report = place.sh_within("while :; do :; done & while :; do :; done", little);
    assert_eq!(report.ending, Ending::Limit(Limit::Cpu));
    assert!(report.cpu >= Duration::from_millis(200), "{report:?}");
}

fn filler(place: &Place) {
    let little = Limits {
        disk_bytes: 2 * MIB,
        ..limits()
    };
    for script in [
        // One file; many; many that are empty; deep folders; a file that only looks large.
        "exec head -c 100000000 /dev/zero > big",
        "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > file$i || exit; done",
        "i=0; while :; do i=$((i+1)); : > file$i; done",
        "exec perl -e 'mkdir(0), chdir(0) while 1'",
        "for i in 3 4 5 6 7 8; do eval \"exec $i> gone\"; rm gone; head -c 1000000 /dev/zero >&$i; done; sleep 300",
        "exec truncate -s 10000000000 big",
    ] {
        let report = place.sh_within(script, little.clone());
        assert_eq!(report.ending, Ending::Limit(Limit::Disk), "{script}");
    }
    let report = place.sh_within("head -c 1000000 /dev/zero > file", little);
    assert_eq!(report.ending, Ending::Exited(0), "{report:?}");
}

fn talker(place: &Place) {
    let little = Limits {
        output_bytes: 10 * MIB,
        kept_bytes: 1000,
        ..limits()
    };
    let report = place.sh_within("head -c 10000000000 /dev/zero", little.clone());
    assert_eq!(report.ending, Ending::Limit(Limit::Output));
    assert!(report.stdout.is_cut());
    assert_eq!(
        (report.stdout.head.len(), report.stdout.tail.len()),
        (750, 250)
    );
    assert!(report.stdout.total > 10 * MIB && report.stdout.total < 1000 * MIB);
    let report = place.sh_within("head -c 5000000 /dev/zero; echo end", little);
    assert_eq!(report.ending, Ending::Exited(0));
    assert_eq!(report.stdout.total, 5_000_004);
    assert!(report.stdout.text().ends_with("end\n"));
}

/// Set for a test that is run again in a group which has less memory than the program may take.
const IN_A_GROUP: &str = "SKILLOPT_SANDBOX_TEST_GROUP";

/// Runs the rest of its arguments in a group below our own (version 1) that has 300 MiB; ends with 77
/// where none can be made.
const JOIN: &str = r#"
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
group="/sys/fs/cgroup/memory$own/skillopt-test-$$"
mkdir "$group" 2>/dev/null || exit 77
trap 'rmdir "$group"' EXIT
echo 300M > "$group/memory.limit_in_bytes" || exit 1
sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$@"
"#;

#[test]
fn a_group_above_that_is_full_is_not_the_programs_fault() {
    if std::env::var_os(IN_A_GROUP).is_some() {
        let place = Place::new(Policy::Auto);
        let hog = "exec perl -e '$much = 1 x 1_000_000_000; sleep 300'";
        let report = place.sh_within(hog, limits());
        assert!(matches!(report.ending, Ending::Lost(_)), "{report:?}");
        return;
    }
    let joins = ["sh", "-c", JOIN, "join"].map(str::to_owned);
    let can = Command::new("sh")
        .args(["-c", JOIN, "join", "true"])
        .status();
    if can.unwrap().code() == Some(77) {
        eprintln!("not tried: no group of version 1 can be made here");
        return;
    }
    let test = "limits::a_group_above_that_is_full_is_not_the_programs_fault";
    let (mut words, _dir) = only(test);
    // Behind `env`.
    words.insert(1, format!("{IN_A_GROUP}=1"));
    passes(&[joins.to_vec(), words].concat());
}
