//! The answer as it goes out.

use skillopt_proto::v1;

use super::super::super::teller::RunJobs;
use crate::read_model::WaitReason;

pub(super) fn response(words: String, jobs: RunJobs) -> v1::WhyResponse {
    let wait = |wait: WaitReason| v1::Wait {
        code: wait.code,
        words: wait.words,
        count: wait.count,
        oldest_ms: wait.oldest_ms,
        help: wait.help,
    };
    v1::WhyResponse {
        words,
        waits: jobs.waits.into_iter().map(wait).collect(),
        waiting: jobs.waiting,
        running: jobs.running,
    }
}
