//! How long steps take, as far as somebody watches: no log knows it.

use std::collections::BTreeMap;

use skillopt_coordinator::read_model::RunView;
use skillopt_runtime::clock::Stopwatch;

/// Remembers when rows came.
#[derive(Default)]
pub(super) struct Pace {
    rows: Option<usize>,
    /// Runs since the last row came, if we saw it come.
    since: Option<Stopwatch>,
    took: BTreeMap<usize, f64>,
}

impl Pace {
    /// Takes in a new look at a run, and tells its rows what is known.
    pub(super) fn see(&mut self, view: &mut RunView) {
        let rows = view.steps.len();
        match self.rows {
            Some(before) if rows > before => {
                // Of several at once nobody knows which took how long.
                if let (Some(since), true) = (&self.since, rows == before + 1) {
                    self.took.insert(before, since.seconds());
                }
                self.since = Some(Stopwatch::start());
            }
            // Another run took the folder.
            Some(before) if rows < before => *self = Self::default(),
            _ => {}
        }
        self.rows = Some(rows);
        for (row, seconds) in &self.took {
            view.took(*row, *seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use skillopt_coordinator::read_model::StepRow;

    use super::*;

    #[test]
    fn only_what_was_watched_from_its_beginning_has_a_time() {
        let mut pace = Pace::default();
        let timed: Vec<Vec<bool>> = [1, 2, 3, 3, 5, 6, 1]
            .into_iter()
            .map(|rows| {
                let mut view = RunView {
                    steps: vec![StepRow::default(); rows],
                    ..RunView::default()
                };
                pace.see(&mut view);
                view.steps.iter().map(|row| row.took_s.is_some()).collect()
            })
            .collect();
        assert_eq!(timed[1], [false, false]);
        assert_eq!(timed[2], [false, false, true]);
        assert_eq!(timed[4], [false, false, true, false, false]);
        assert_eq!(timed[5], [false, false, true, false, false, true]);
        assert_eq!(timed[6], [false]);
    }
}
