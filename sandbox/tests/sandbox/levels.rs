//! Which level is chosen where something is forbidden, as containers forbid it.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition};
use seccompiler::{SeccompFilter, SeccompRule, apply_filter};
use skillopt_sandbox::{Ending, Error, Host, Level, Policy, ProcMount};

use crate::support::{Place, as_plain_user, is_superuser, only, passes, said, settings};

/// Refuses what the default profile of container runtimes refuses without `CAP_SYS_ADMIN`, for this
/// thread and all that it starts.
fn forbid_namespaces() {
    let flags = [
        0x0002_0000u64,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
    ];
    let flagged = flags.map(|flag| {
        let op = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, op, flag).unwrap();
        SeccompRule::new(vec![condition]).unwrap()
    });
    let calls = [
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
    ];
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        calls.into_iter().map(|call| (call, Vec::new())).collect();
    refused.insert(libc::SYS_clone, flagged.to_vec());
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, errno) in [(refused, libc::EPERM), (unknown, libc::ENOSYS)] {
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(errno.cast_unsigned()),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
        apply_filter(&program).unwrap();
    }
}

#[test]
fn without_namespaces_landlock_is_chosen_or_nothing() {
    // On a thread of its own, for the filter stays.
    let tested = std::thread::spawn(|| {
        forbid_namespaces();
        let dir = tempfile::tempdir().unwrap();
        match Host::open(settings(dir.path(), Policy::Auto)) {
            Err(error) if is_superuser() => {
                assert!(matches!(error, Error::NoLevel(_)), "{error}");
                let text = error.to_string();
                assert!(text.contains("No permissions to create"), "{text}");
                assert!(text.contains("ordinary user"), "{text}");
                let left = std::fs::read_dir(dir.path().join("rooms")).unwrap();
                assert_eq!(left.count(), 0);
            }
            Err(error) => panic!("{error}"),
            Ok(host) => {
                assert!(!is_superuser());
                assert_eq!(host.level(), Level::Landlock);
                let place = Place { host, dir };
                let report = place.sh("echo in; (echo x > /tmp/x) 2>/dev/null || echo refused");
                assert_eq!(said(&report), "in\nrefused\n");
                assert_eq!(report.ending, Ending::Exited(0));
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let asked = Host::open(settings(dir.path(), Policy::Bubblewrap)).unwrap_err();
        assert!(asked.to_string().contains("bubblewrap:"), "{asked}");
    });
    tested.join().unwrap();
    if is_superuser() {
        let (words, _dir) = only("levels::without_namespaces_landlock_is_chosen_or_nothing");
        passes(&[as_plain_user(), words].concat());
    }
}

/// Where part of `/proc` is covered, as in every container, the kernel lets no new one be mounted.
#[test]
fn with_a_covered_proc_the_shared_one_is_used() {
    const COVERED: &str = "levels::under_a_covered_proc";
    let (words, _dir) = only(COVERED);
    let mut line: Vec<String> = ["unshare", "-m"].map(str::to_owned).to_vec();
    if !is_superuser() {
        line.push("-Ur".to_owned());
    }
    let cover = "mount --bind /dev/null /proc/keys && mount --bind /proc/sys /proc/sys && \
                 mount -o remount,bind,ro /proc/sys && exec \"$@\"";
    line.extend(
        [
            "sh",
            "-c",
            cover,
            "sh",
            "env",
            "SKILLOPT_SANDBOX_TEST_COVERED=1",
        ]
        .map(str::to_owned),
    );
    if is_superuser() {
        line.extend(as_plain_user());
    }
    passes(&[line, words].concat());
}

/// Is started by the test above; alone it shows that the own `/proc` is the rule.
#[test]
fn under_a_covered_proc() {
    let is_covered = std::env::var_os("SKILLOPT_SANDBOX_TEST_COVERED").is_some();
    let place = Place::new(Policy::Auto);
    assert_eq!(place.level(), Level::Bubblewrap);
    let found = place.host.offers().bubblewrap.clone().unwrap();
    let wanted = if is_covered {
        ProcMount::Shared
    } else {
        ProcMount::New
    };
    assert_eq!(found.proc, wanted, "{found:?}");
    // The worker can be seen in the shared one, but neither read nor reached.
    let worker = std::process::id();
    let script = format!(
        "echo $$ > /dev/null; for what in environ root/etc/passwd fd/0 mem; do \
         (cat < /proc/{worker}/$what) >/dev/null 2>&1 && echo read $what; done; \
         kill -0 {worker} 2>/dev/null && echo reached; \
         (echo x > /proc/sys/kernel/hostname) 2>/dev/null && echo wrote; true"
    );
    assert_eq!(said(&place.sh(&script)), "");
}

#[test]
fn none_is_chosen_by_its_name_alone() {
    let place = Place::new(Policy::None);
    assert_eq!(place.level(), Level::None);
    assert_eq!(said(&place.sh("echo $A; setsid sleep 300 & exit 0")), "\n");
    assert!(
        Policy::parse("off")
            .unwrap_err()
            .contains("auto, bubblewrap, landlock, none")
    );
}

#[test]
fn what_the_machine_offers_is_shown_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let probe = Host::probe(settings(dir.path(), Policy::Auto)).unwrap();
    let json = serde_json::to_value(&probe).unwrap();
    assert!(json["bubblewrap"]["Ok"]["version"].is_string(), "{json}");
    assert!(
        json["landlock"].is_object() && json["cgroups"].is_object(),
        "{json}"
    );
    assert_eq!(json["uid"], nix::unistd::geteuid().as_raw());
    let words = probe.words(Level::Bubblewrap);
    assert!(words.starts_with("bubblewrap 0."), "{words}");
    let missing = skillopt_sandbox::Settings {
        bubblewrap: Some("/no/such/bwrap".into()),
        ..settings(dir.path(), Policy::Bubblewrap)
    };
    let error = Host::open(missing).unwrap_err().to_string();
    assert!(error.contains("/no/such/bwrap"), "{error}");
}
