//! The lanes whose jobs this build can run.

use skillopt_benchmarks::registry;
use skillopt_core::capability::{self, Kind};
use skillopt_queue::Lane;

/// Returns the lanes of this build's benchmarks with `backends`, those that can be called.
#[must_use]
pub fn lanes(backends: &[&str]) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for backend in backends {
        lanes.push(Lane::new(&capability::calls(backend)));
        for name in registry::names() {
            // Every registered name is found.
            if let Ok(benchmark) = registry::find(name) {
                let lane = capability::rollouts(backend, name, benchmark.version());
                lanes.push(Lane::new(&lane));
            }
        }
    }
    lanes
}

/// Returns the kind of slot that a lane's jobs take.
pub(crate) fn kind(lane: &Lane) -> Kind {
    capability::kind_of(lane.as_str()).unwrap_or(Kind::Chat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_offered_with_every_backend() {
        let lanes = lanes(&["simulated", "claude_code_exec"]);
        let version = registry::find("searchqa").unwrap().version();
        let has = |name: &str| lanes.contains(&Lane::new(name));
        assert!(has("v1 chat simulated"));
        assert!(has(&format!("v1 chat simulated searchqa@{version}")));
        assert!(has(&format!("v1 exec claude_code_exec searchqa@{version}")));
        assert_eq!(kind(&Lane::new("v1 exec claude_code_exec")), Kind::Exec);
        assert_eq!(kind(&Lane::new("v2 exec x")), Kind::Exec);
    }
}
