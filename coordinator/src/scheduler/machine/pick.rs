//! Which waiting job gets the next free place.

use skillopt_core::job::Key;
use skillopt_queue::{Enqueue, Priority, Timestamp};

use super::Machine;
use super::field::Field;
use super::job::{LineId, Out, Place};
use super::pools::Pool;

/// Ordinary releases for one by age: every fourth place.
const AGED_COST: u32 = 3;
/// Most releases by age that are saved up.
const AGED_SAVED_MAX: u32 = 4 * AGED_COST;
/// Most jobs of one batch.
const BATCH_MAX: usize = 1_024;
/// Released jobs whose age is looked at in one step.
const AGE_LOOKS: usize = 16;

/// Jobs for the queue, to be submitted together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Names it when an end is told.
    pub number: u64,
    /// The jobs; those that are in the queue already are to be hastened there.
    pub jobs: Vec<Enqueue>,
}

/// How a job is released.
struct Terms {
    now: Timestamp,
    batch: u64,
    priority: Priority,
    is_aged: bool,
}

impl<W: Clone> Machine<W> {
    /// Releases jobs into free places; call it until the batch is empty, after every other step.
    pub fn fill(&mut self, now: Timestamp) -> Batch {
        let number = self.next_batch;
        let mut jobs = Vec::new();
        for pool in self.pools.with_lines(number) {
            self.fill_pool(now, pool, number, &mut jobs);
        }
        self.hasten_old(now, number);
        let hasten = std::mem::take(&mut self.hasten);
        jobs.extend(
            hasten
                .into_iter()
                .filter_map(|key| self.hastened(key, number)),
        );
        if !jobs.is_empty() {
            self.next_batch += 1;
        }
        Batch { number, jobs }
    }

    fn fill_pool(&mut self, now: Timestamp, pool: u64, number: u64, jobs: &mut Vec<Enqueue>) {
        let Some(places) = self.pools.get(pool) else {
            return;
        };
        let room = self.limits.window_max.saturating_sub(self.out.len());
        let room = room.min(places.window.saturating_sub(places.out));
        let room = room.min(BATCH_MAX.saturating_sub(jobs.len()));
        if room == 0 {
            return;
        }
        let mut field = self.field(places);
        let age_max = self.limits.age_max;
        let mut credit = places.credit;
        for _ in 0..room {
            let Some((at, is_aged)) = field.choose(now, (credit >= AGED_COST).then_some(age_max))
            else {
                return;
            };
            let (id, level) = field.line(at);
            let is_ahead = field.is_ahead(at);
            let priority = match (is_aged, is_ahead) {
                (true, _) => Priority::FIRST,
                (false, true) => Priority::new(level.level() + 1),
                (false, false) => level,
            };
            let terms = Terms {
                now,
                batch: number,
                priority,
                is_aged,
            };
            match self.release(&id, terms) {
                Some(job) => {
                    jobs.push(job);
                    field.serve(at, now, self.turn);
                    credit = self.pools.of(&id.lane).map_or(0, |pool| pool.credit);
                }
                // Its last job has left with another line.
                None => field.drop(at),
            }
            if !self.lines.contains_key(&id) {
                field.drop(at);
            }
        }
    }

    fn field(&self, pool: &Pool) -> Field {
        let weights = self.runs.group_weights();
        let mut field = Field::new(pool, &weights);
        for id in &pool.lines {
            let Some(line) = self.lines.get(id) else {
                continue;
            };
            let first = line.keys.iter().filter_map(|key| self.jobs.get(key));
            let mut since = first
                .filter(|entry| entry.waits_in(id))
                .map(|entry| entry.since);
            let since = since.next().unwrap_or(line.served_at).max(line.served_at);
            field.add(pool, &self.runs, id, since, line.served);
        }
        field.count(pool);
        field
    }

    /// Gives the first job of a line to the queue.
    fn release(&mut self, id: &LineId, terms: Terms) -> Option<Enqueue> {
        let run = self.runs.get(id.run)?;
        let (name, owner) = (run.name.clone(), run.owner);
        let key = self.pop(id)?;
        let entry = self.jobs.get_mut(&key)?;
        self.turn += 1;
        entry.place = Place::Out(Out {
            line: id.clone(),
            submitted_as: name.clone(),
            batch: terms.batch,
            priority: terms.priority,
            at: terms.now,
            turn: self.turn,
        });
        let (lines, mut job) = (entry.lines(), entry.job.clone());
        (job.run, job.priority) = (name, terms.priority);
        self.out.insert(self.turn, key);
        self.shared.remove(&key);
        self.waiting -= 1;
        self.runs.serve(owner, self.turn);
        self.runs.charge(owner.run);
        self.pools.charge(&id.lane, owner);
        if let Some(line) = self.lines.get_mut(id) {
            (line.served_at, line.served) = (terms.now, self.turn);
        }
        for line in lines {
            self.leave_line(&line);
        }
        let pool = self.pools.of_mut(&id.lane);
        pool.pay(terms.is_aged);
        pool.last[usize::from(terms.priority.level())] = terms.batch;
        Some(job)
    }

    /// Takes the first job that waits in a line out of it.
    fn pop(&mut self, id: &LineId) -> Option<Key> {
        let line = self.lines.get_mut(id)?;
        while let Some(key) = line.keys.pop_front() {
            if self.jobs.get(&key).is_some_and(|entry| entry.waits_in(id)) {
                return Some(key);
            }
        }
        None
    }

    /// Hastens a few of the jobs that were overtaken in the queue for too long.
    fn hasten_old(&mut self, now: Timestamp, number: u64) {
        let is_old = |key: &Key| match self.jobs.get(key).map(|entry| &entry.place) {
            Some(Place::Out(out)) => now.since(out.at) >= self.limits.age_max,
            _ => false,
        };
        let later = self.out.range(self.looked_at + 1..);
        let old = later.take_while(|(_, key)| is_old(key)).take(AGE_LOOKS);
        let looked: Vec<(u64, Key)> = old.map(|(turn, key)| (*turn, *key)).collect();
        // At the end begin anew.
        let last = looked.last().filter(|_| looked.len() == AGE_LOOKS);
        self.looked_at = last.map_or(0, |(turn, _)| *turn);
        for (_, key) in looked {
            let Some(entry) = self.jobs.get_mut(&key) else {
                continue;
            };
            let Place::Out(out) = &mut entry.place else {
                continue;
            };
            let pool = self.pools.of_mut(&out.line.lane);
            let higher = pool.last.iter().skip(usize::from(out.priority.level()) + 1);
            let is_overtaken = higher.max().is_some_and(|batch| *batch > out.batch);
            if is_overtaken && pool.credit >= AGED_COST {
                pool.pay(true);
                pool.last[usize::from(Priority::FIRST.level())] = number;
                out.priority = Priority::FIRST;
                self.hasten.insert(key);
            }
        }
    }

    /// Returns a job that was released before batch `number`, as the queue should have it now.
    fn hastened(&self, key: Key, number: u64) -> Option<Enqueue> {
        let entry = self.jobs.get(&key)?;
        let Place::Out(out) = &entry.place else {
            return None;
        };
        let mut job = entry.job.clone();
        (job.run, job.priority) = (out.submitted_as.clone(), out.priority);
        (out.batch != number).then_some(job)
    }
}

impl Pool {
    fn pay(&mut self, is_aged: bool) {
        self.credit = if is_aged {
            self.credit.saturating_sub(AGED_COST)
        } else {
            (self.credit + 1).min(AGED_SAVED_MAX)
        };
    }
}
