//! Numbers as people read them: the same as in every view of a run.

pub(crate) use skillopt_coordinator::read_model::{
    amount, count, harmless, money, number, plural, span,
};
