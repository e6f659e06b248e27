//! The system calls that a program in the sandbox does not get.
//!
//! A list of refusals, not of permissions: agent programs are of all kinds, and namespaces or
//! Landlock do the main part. The filter closes what they leave open.

use std::collections::BTreeMap;

use nix::libc as sys;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// Doors into the kernel that no agent needs, and other processes' memory.
const REFUSED: &[i64] = &[
    sys::SYS_acct,
    sys::SYS_add_key,
    sys::SYS_bpf,
    sys::SYS_chroot,
    sys::SYS_clock_adjtime,
    sys::SYS_clock_settime,
    sys::SYS_delete_module,
    sys::SYS_fanotify_init,
    sys::SYS_finit_module,
    sys::SYS_fsconfig,
    sys::SYS_fsmount,
    sys::SYS_fsopen,
    sys::SYS_fspick,
    sys::SYS_init_module,
    sys::SYS_kcmp,
    sys::SYS_kexec_load,
    sys::SYS_keyctl,
    sys::SYS_mount,
    sys::SYS_mount_setattr,
    sys::SYS_move_mount,
    sys::SYS_name_to_handle_at,
    sys::SYS_open_by_handle_at,
    sys::SYS_open_tree,
    sys::SYS_perf_event_open,
    sys::SYS_pidfd_getfd,
    sys::SYS_pivot_root,
    sys::SYS_process_madvise,
    sys::SYS_process_vm_readv,
    sys::SYS_process_vm_writev,
    sys::SYS_ptrace,
    sys::SYS_quotactl,
    sys::SYS_reboot,
    sys::SYS_request_key,
    sys::SYS_setdomainname,
    sys::SYS_sethostname,
    sys::SYS_setns,
    sys::SYS_settimeofday,
    sys::SYS_swapoff,
    sys::SYS_swapon,
    sys::SYS_syslog,
    sys::SYS_umount2,
    sys::SYS_unshare,
    sys::SYS_userfaultfd,
];

/// Calls that programs try and do without: they are told that this kernel has none. `clone3` hides
/// its flags from a filter; without it, `clone` is used, whose flags can be seen.
const UNKNOWN: &[i64] = &[
    sys::SYS_clone3,
    sys::SYS_io_uring_enter,
    sys::SYS_io_uring_register,
    sys::SYS_io_uring_setup,
];

/// Memory and messages of the machine that have no path: Landlock does not cover them, and they stay
/// when their program is over.
const WITHOUT_PATH: &[i64] = &[
    sys::SYS_mq_open,
    sys::SYS_msgget,
    sys::SYS_semget,
    sys::SYS_shmget,
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 7] = [
    sys::CLONE_NEWCGROUP,
    sys::CLONE_NEWIPC,
    sys::CLONE_NEWNET,
    sys::CLONE_NEWNS,
    sys::CLONE_NEWPID,
    sys::CLONE_NEWUSER,
    sys::CLONE_NEWUTS,
];

/// What the program's network is, and with it all that namespaces can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// A namespace of its own: sockets that namespaces do not cover are refused.
    Own,
    /// The machine's: only TCP is left, which Landlock bounds by port. No Unix sockets either, for
    /// their paths are not covered by Landlock; pairs of them are made without this call.
    Shared,
}

/// Binds the calling thread and everything it will start.
///
/// # Errors
/// The kernel or the processor has no such filters.
pub(crate) fn apply(network: Network) -> Result<(), String> {
    for program in programs(network)? {
        apply_filter(&program).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn programs(network: Network) -> Result<[BpfProgram; 2], String> {
    let mut refused: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let flags = NAMESPACES.map(|flag| vec![bit(0, flag)]);
    refused.insert(sys::SYS_clone, flags.to_vec());
    refused.insert(sys::SYS_socket, sockets(network));
    if network == Network::Shared {
        refused.extend(WITHOUT_PATH.iter().map(|call| (*call, Vec::new())));
        // It connects while it sends, past the rules for `connect`.
        for (call, place) in [
            (sys::SYS_sendto, 3),
            (sys::SYS_sendmsg, 2),
            (sys::SYS_sendmmsg, 3),
        ] {
            refused.insert(call, vec![vec![bit(place, sys::MSG_FASTOPEN)]]);
        }
    }
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    Ok([
        compile(&refused, sys::EPERM)?,
        compile(&unknown, sys::ENOSYS)?,
    ])
}

/// For each call: it is refused if all conditions of one of the lists hold, or always.
type Rules = BTreeMap<i64, Vec<Vec<Condition>>>;

#[derive(Clone)]
struct Condition {
    argument: u8,
    op: SeccompCmpOp,
    value: i32,
}

fn bit(argument: u8, bit: i32) -> Condition {
    let mask = u64::from(bit.cast_unsigned());
    Condition {
        argument,
        op: SeccompCmpOp::MaskedEq(mask),
        value: bit,
    }
}

fn is(argument: u8, value: i32) -> Condition {
    Condition {
        argument,
        op: SeccompCmpOp::Eq,
        value,
    }
}

fn is_not(argument: u8, values: &[i32]) -> Vec<Condition> {
    let condition = |value: &i32| Condition {
        argument,
        op: SeccompCmpOp::Ne,
        value: *value,
    };
    values.iter().map(condition).collect()
}

/// Families such as `AF_VSOCK`, which leads from a virtual machine to its host, know no namespaces.
fn sockets(network: Network) -> Vec<Vec<Condition>> {
    let internet = [sys::AF_INET, sys::AF_INET6];
    let families: &[i32] = match network {
        Network::Own => &[sys::AF_UNIX, sys::AF_INET, sys::AF_INET6, sys::AF_NETLINK],
        Network::Shared => &[sys::AF_INET, sys::AF_INET6, sys::AF_NETLINK],
    };
    let mut refused = vec![is_not(0, families)];
    // Routes may be read, which libraries do to list addresses; the audit log and such may not.
    refused.push(
        [
            vec![is(0, sys::AF_NETLINK)],
            is_not(2, &[sys::NETLINK_ROUTE]),
        ]
        .concat(),
    );
    if network == Network::Shared {
        for family in internet {
            // Multipath TCP and others are not what the rules for TCP look at.
            refused.push([vec![is(0, family)], is_not(2, &[0, sys::IPPROTO_TCP])].concat());
            // The low four bits are the type; the others are flags.
            for kind in (0..16).filter(|kind| *kind != sys::SOCK_STREAM) {
                let of_kind = Condition {
                    argument: 1,
                    op: SeccompCmpOp::MaskedEq(0xf),
                    value: kind,
                };
                refused.push(vec![is(0, family), of_kind]);
            }
        }
    }
    refused
}

fn compile(rules: &Rules, errno: i32) -> Result<BpfProgram, String> {
    let mut map = BTreeMap::new();
    for (call, lists) in rules {
        let lists = lists
            .iter()
            .map(|list| rule(list))
            .collect::<Result<Vec<_>, _>>()?;
        // The same call in the 32-bit numbering of 64-bit programs.
        #[cfg(target_arch = "x86_64")]
        map.insert(call | 0x4000_0000, lists.clone());
        map.insert(*call, lists);
    }
    let arch = std::env::consts::ARCH;
    let filter = SeccompFilter::new(
        map,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.cast_unsigned()),
        arch.try_into()
            .map_err(|_| format!("no filter for {arch}"))?,
    );
    let filter = filter.map_err(|e| e.to_string())?;
    filter
        .try_into()
        .map_err(|e: seccompiler::BackendError| e.to_string())
}

fn rule(list: &[Condition]) -> Result<SeccompRule, String> {
    let conditions = list.iter().map(|condition| {
        SeccompCondition::new(
            condition.argument,
            SeccompCmpArgLen::Dword,
            condition.op.clone(),
            u64::from(condition.value.cast_unsigned()),
        )
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>();
    conditions
        .and_then(SeccompRule::new)
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket, socketpair};

    use super::*;

    /// Tries calls on a thread that the filter then holds.
    fn under(network: Network, try_out: fn()) {
        let thread = std::thread::spawn(move || {
            apply(network).unwrap();
            try_out();
        });
        thread.join().unwrap();
    }

    fn opens(family: AddressFamily, kind: SockType) -> Result<(), Errno> {
        socket(family, kind, SockFlag::SOCK_CLOEXEC, None).map(drop)
    }

    #[track_caller]
    fn refused(program: &str, args: &[&str]) {
        let output = std::process::Command::new(program).args(args).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{program} {args:?}");
        assert!(
            said.contains("not permitted") || said.contains("failed"),
            "{program} {args:?}: {said}"
        );
    }

    #[test]
    fn a_network_of_its_own_leaves_what_namespaces_cover() {
        use AddressFamily as F;
        under(Network::Own, || {
            for family in [F::Unix, F::Inet, F::Inet6] {
                for kind in [SockType::Stream, SockType::Datagram] {
                    assert_eq!(opens(family, kind), Ok(()), "{family:?} {kind:?}");
                }
            }
            for family in [F::Vsock, F::Packet, F::Alg, F::Bluetooth] {
                let opened = opens(family, SockType::Stream);
                assert_eq!(opened, Err(Errno::EPERM), "{family:?}");
            }
            refused("unshare", &["--user", "true"]);
            refused("unshare", &["--mount", "true"]);
        });
    }

    #[test]
    fn of_a_shared_network_only_tcp_is_left() {
        use AddressFamily as F;
        under(Network::Shared, || {
            for family in [F::Inet, F::Inet6] {
                assert_eq!(opens(family, SockType::Stream), Ok(()));
                for kind in [SockType::Datagram, SockType::Raw, SockType::SeqPacket] {
                    assert_eq!(opens(family, kind), Err(Errno::EPERM), "{kind:?}");
                }
            }
            assert_eq!(opens(F::Unix, SockType::Stream), Err(Errno::EPERM));
            let flags = SockFlag::SOCK_CLOEXEC;
            socketpair(F::Unix, SockType::Stream, None, flags).unwrap();
            socket(F::Inet, SockType::Stream, flags, SockProtocol::Tcp).unwrap();
            let audit = SockProtocol::NetlinkAudit;
            let audit = socket(F::Netlink, SockType::Raw, flags, audit);
            assert_eq!(audit.map(drop), Err(Errno::EPERM));
            let route = socket(F::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute);
            assert_eq!(route.map(drop), Ok(()));
            refused("ipcmk", &["--shmem", "4096"]);
            // Threads and processes still start.
            std::thread::spawn(|| ()).join().unwrap();
            let status = std::process::Command::new("true").status().unwrap();
            assert!(status.success());
        });
    }
}
