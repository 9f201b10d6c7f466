//! Threads that tokenize, so that none that serves requests does.
//!
//! Long bodies wait for a turn of their own: one thread takes short ones only, so that a prompt of a million tokens
//! delays no short one. Who asked may stop waiting at any time ([`Wanted`] is dropped): what has not begun then is
//! left, and what has begun is finished, because the conversation's next turn finds it kept.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::{NoTokens, Tokenizer};
use crate::types::Api;

/// What comes of a request's tokens.
pub type Tokenized = Result<Arc<[u32]>, NoTokens>;

/// Jobs that wait at most; more are refused, because nobody waits that long.
const MAX_WAITING: usize = 512;
/// Bodies from this length on wait apart, bytes.
const LONG: usize = 256 << 10;

struct Job {
    tokenizer: Arc<Tokenizer>,
    api: Api,
    body: Bytes,
    wanted: Arc<AtomicBool>,
    done: Box<dyn FnOnce(Tokenized) + Send>,
}

#[derive(Default)]
struct Jobs {
    short: VecDeque<Job>,
    long: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    come: Condvar,
}

/// The threads. They end when this is dropped.
pub struct Workers {
    queue: Arc<Queue>,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

/// While this lives, somebody waits for the tokens.
#[derive(Debug)]
pub struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts two threads: one for short bodies, and one for all.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let workers = Self { queue: Arc::default() };
        for (name, long) in [("tokens-short", false), ("tokens", true)] {
            let queue = Arc::clone(&workers.queue);
            std::thread::Builder::new().name(name.into()).spawn(move || queue.work(long))?;
        }
        Ok(workers)
    }

    /// Has a body tokenized; `done` is called on one of the threads.
    ///
    /// # Errors
    /// [`NoTokens::Busy`] when too many wait.
    pub fn submit(
        &self,
        tokenizer: &Arc<Tokenizer>,
        api: Api,
        body: Bytes,
        done: impl FnOnce(Tokenized) + Send + 'static,
    ) -> Result<Wanted, NoTokens> {
        let wanted = Arc::new(AtomicBool::new(true));
        let handle = Wanted(Arc::clone(&wanted));
        let mut jobs = self.queue.jobs.lock();
        let jobs_of_length = if body.len() < LONG { &mut jobs.short } else { &mut jobs.long };
        if jobs_of_length.len() >= MAX_WAITING {
            jobs_of_length.retain(|job| job.wanted.load(Ordering::Relaxed));
        }
        if jobs_of_length.len() >= MAX_WAITING {
            return Err(NoTokens::Busy);
        }
        jobs_of_length.push_back(Job {
            tokenizer: Arc::clone(tokenizer),
            api,
            body,
            wanted,
            done: Box::new(done),
        });
        drop(jobs);
        // Either thread may be the one that takes it.
        self.queue.come.notify_all();
        Ok(handle)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut jobs = self.queue.jobs.lock();
        jobs.closed = true;
        jobs.short.clear();
        jobs.long.clear();
        drop(jobs);
        self.queue.come.notify_all();
    }
}

impl Queue {
    fn work(&self, long: bool) {
        while let Some(job) = self.next(long) {
            if job.wanted.load(Ordering::Relaxed) {
                // The library's panics end the job and not the thread; it keeps nothing that they could leave half done.
                let made = catch_unwind(AssertUnwindSafe(|| job.tokenizer.tokens(job.api, &job.body)));
                (job.done)(made.unwrap_or(Err(NoTokens::Failed)));
            }
        }
    }

    fn next(&self, long: bool) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.closed {
                return None;
            }
            let job = if long { jobs.long.pop_front() } else { None };
            if let Some(job) = job.or_else(|| jobs.short.pop_front()) {
                return Some(job);
            }
            self.come.wait(&mut jobs);
        }
    }
}
