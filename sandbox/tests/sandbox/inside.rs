//! What a program can see and reach.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use skillopt_sandbox::{Ending, Input, Level, Limits, Task};

use crate::support::{Place, block_on, everywhere, said, shell};

everywhere! {
    the_environment_is_exactly_what_was_given => environment;
    nothing_outside_can_be_written => writes;
    nothing_of_others_can_be_read => reads;
    the_hosts_network_cannot_be_reached => network;
    a_relay_answers_on_its_port => relay;
    its_own_folders_can_be_used => folders;
}

fn environment(place: &Place) {
    let task = Task {
        program: "/usr/bin/env".to_owned(),
        env: [("A", "1"), ("B", "two words")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Task::default()
    };
    let mut room = place.room(Limits::default());
    let report = block_on(async { room.run(&task, &mut |_| {}).await }).unwrap();
    assert_eq!(said(&report), "A=1\nB=two words\n");
}

fn writes(place: &Place) {
    let outside = place.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("mine"), "kept").unwrap();
    let outside = outside.display();
    let rooms = place.dir.path().join("rooms");
    let targets = [
        "/usr/x".to_owned(),
        "/etc/x".to_owned(),
        "/etc/passwd".to_owned(),
        "/x".to_owned(),
        "/dev/x".to_owned(),
        "/run/x".to_owned(),
        "/var/tmp/x".to_owned(),
        // Its own if it can be written after all, unlike its neighbours.
        "/proc/sys/kernel/hostname".to_owned(),
        format!("{outside}/x"),
        format!("{outside}/mine"),
        format!("{}/x", rooms.display()),
    ];
    for target in &targets {
        let report = place.sh(&format!("(echo x >> {target}) 2>/dev/null && echo wrote"));
        assert_eq!(report.stdout.text(), "", "{target}");
    }
    place.sh(&format!("rm -rf {outside}"));
    assert_eq!(
        std::fs::read(place.dir.path().join("outside/mine")).unwrap(),
        b"kept"
    );
}

fn reads(place: &Place) {
    let secret = place.dir.path().join("secret");
    std::fs::write(&secret, "gold").unwrap();
    let mut other = place.room(Limits::default());
    let file = Input {
        place: skillopt_sandbox::Place::Work,
        path: "answer".into(),
        bytes: b"gold".to_vec(),
        is_executable: false,
    };
    let task = Task {
        files: vec![file],
        ..shell("cat answer")
    };
    let report = block_on(async { other.run(&task, &mut |_| {}).await }).unwrap();
    assert_eq!(said(&report), "gold");

    let (secret, worker) = (secret.display(), std::process::id());
    let rooms = place.dir.path().join("rooms");
    let rooms = rooms.display();
    for script in [
        format!("cat {secret}"),
        format!("ls {rooms}"),
        format!("cat {rooms}/*/*/*/answer"),
        format!("cat /proc/{worker}/environ"),
        format!("cat /proc/{worker}/root{secret}"),
        "cat /proc/1/environ".to_owned(),
        "cd /proc/1/root && cat etc/shadow".to_owned(),
        "cat /etc/shadow".to_owned(),
        "ls /etc/ssl/private".to_owned(),
        "for fd in 3 4 5 6 7 8 9; do readlink /proc/$PPID/fd/$fd && exit; done; false".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
        format!("kill -9 {worker}"),
    ] {
        let report = place.sh(&format!("({script}) >/dev/null 2>&1 && echo could"));
        assert_eq!(said(&report), "", "{script}");
        assert_ne!(report.ending, Ending::Exited(0), "{script}");
    }
    if place.level() == Level::Bubblewrap {
        let report = place.sh("id -u; echo /proc/[0-9]*; hostname; ls -A ~ /var /run/sandbox");
        let text = said(&report);
        assert!(text.starts_with("1000\n/proc/1 /proc/"), "{text}");
        assert!(
            text.split_whitespace()
                .filter(|w| w.starts_with("/proc"))
                .count()
                < 5,
            "{text}"
        );
        assert!(text.contains("sandbox\n"), "{text}");
    }
}

fn network(place: &Place) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_port, udp_port) = (
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port(),
    );
    let script = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{tcp_port}) 2>/dev/null && echo connected; \
         (echo gold > /dev/udp/127.0.0.1/{udp_port}) 2>/dev/null; \
         (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null && echo outside; \
         getent hosts example.com && echo resolved; true"
    );
    let report = place.sh(&script);
    assert_eq!(said(&report), "", "{:?}", place.level());
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    assert!(tcp.accept().is_err());
    assert!(udp.recv(&mut [0; 9]).is_err());
}

fn relay(place: &Place) {
    let socket = place.dir.path().join("relay");
    let listener = UnixListener::bind(&socket).unwrap();
    let relay = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            lines.read_line(&mut line).unwrap();
            write!(stream, "you said {line}").unwrap();
        }
    });
    let script = "for word in one two; do exec 3<>/dev/tcp/127.0.0.1/$PORT; echo $word >&3; \
                  cat <&3; exec 3>&-; done";
    let report = place.sh_with_relay(&socket, script);
    assert_eq!(said(&report), "you said one\nyou said two\n");
    relay.join().unwrap();
}

fn folders(place: &Place) {
    let tools = place.dir.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("data"), "tool").unwrap();
    let mut room = place.room(Limits::default());
    let paths = room.paths();
    let script = format!(
        "set -e; pwd; ls; cat ~/.config/tool; ./run; echo x > {tmp}/x; mkdir ~/new; \
         cat {tools}/data; ! (echo x > {tools}/data) 2>/dev/null; echo; cat < /dev/null; \
         head -c 3 /dev/urandom | wc -c; (sleep 0 & wait)",
        tmp = paths.tmp.display(),
        tools = tools.display(),
    );
    let file = |place, path: &str, text: &str| Input {
        place,
        path: path.into(),
        bytes: text.as_bytes().to_vec(),
        is_executable: text.starts_with("#!"),
    };
    let mut task = Task {
        files: vec![
            file(
                skillopt_sandbox::Place::Work,
                "run",
                "#!/bin/sh\necho ran\n",
            ),
            file(skillopt_sandbox::Place::Home, ".config/tool", "config\n"),
        ],
        read_only: vec![tools.clone()],
        ..shell(&script)
    };
    let home = paths.home.display().to_string();
    task.env.insert("HOME".to_owned(), home);
    let report = block_on(async { room.run(&task, &mut |_| {}).await }).unwrap();
    let wanted = format!("{}\nrun\nconfig\nran\ntool\n3\n", paths.work.display());
    assert_eq!(said(&report), wanted);
    assert_eq!(report.ending, Ending::Exited(0));
    assert_eq!(std::fs::read(tools.join("data")).unwrap(), b"tool");
}
