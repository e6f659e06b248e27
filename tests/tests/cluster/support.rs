//! The tests' own Redis and proxy.

use std::time::Duration;

use nix::sys::signal::Signal;
use skillopt_tests::support::wait::{LONG, until};
use skillopt_tests::support::{Proxy, Redis};

#[test]
fn a_redis_comes_back_with_what_it_had() {
    let mut redis = Redis::start();
    assert_eq!(redis.ask("SET a 1").unwrap(), "+OK");
    redis.stop(Signal::SIGKILL);
    assert!(redis.ask("GET a").is_err());
    redis.again();
    assert_eq!(redis.ask("GET a").unwrap(), "1");
}

#[test]
fn a_proxy_lets_through_what_it_is_told_to() {
    use std::io::{Read as _, Write as _};
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let connect = || {
        let stream = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    let ping = |stream: &mut std::net::TcpStream| {
        let mut answer = [0; 7];
        stream
            .write_all(b"PING\r\n")
            .and_then(|()| stream.read_exact(&mut answer))
    };
    let mut stream = connect();
    ping(&mut stream).unwrap();
    proxy.stall();
    let short = Some(Duration::from_millis(300));
    stream.set_read_timeout(short).unwrap();
    assert!(ping(&mut stream).is_err(), "nothing comes through");
    proxy.heal();
    let mut late = [0; 7];
    until("what was held back comes", || {
        stream.read_exact(&mut late).is_ok()
    });
    proxy.cut();
    until("the connection breaks", || ping(&mut stream).is_err());
    assert!(ping(&mut connect()).is_err(), "nobody gets through");
    proxy.heal();
    let mut stream = connect();
    ping(&mut stream).unwrap();
    proxy.reset();
    until("the connection is reset", || ping(&mut stream).is_err());
    ping(&mut connect()).unwrap();
}
