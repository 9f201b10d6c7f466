//! The plan against a directory that changes at any time, with events that come or do not, under a clock of
//! the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::plan::{LONGEST_REST, Plan, STEP};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::plugin::directory::{self, Files, Stamp};
use crate::plugin::settle::{CAP, QUIET};

const NAMES: [&str; 6] = ["a.wasm", "a.toml", "a.wasm.sig", "a.next.wasm", "b.wasm", "b.toml"];

#[derive(Debug, Clone)]
struct Change {
    at: Nanos,
    name: &'static str,
    removed: bool,
    /// Whether the system sends an event of it.
    event: bool,
}

#[derive(Debug, Clone)]
struct Scene {
    poll: Nanos,
    changes: Vec<Change>,
    /// When the directory cannot be listed.
    blind: Option<(Nanos, Nanos)>,
    /// How long each look takes, in turn, and whether it sees what happens meanwhile.
    looks: Vec<(Nanos, bool)>,
}

#[derive(Debug)]
struct Read {
    version: &'static str,
    at: Nanos,
    /// The last and the first change since it was read before, of those that a listing showed.
    last: Nanos,
    first: Nanos,
    /// Since when there has been something to read without a break.
    waiting: Nanos,
    files: Files,
}

/// A directory, and what the catalog has read of it.
struct World {
    scene: Scene,
    plan: Plan,
    now: Nanos,
    next: usize,
    files: Files,
    read: BTreeMap<&'static str, Files>,
    /// When each path changed last.
    touched: BTreeMap<PathBuf, Nanos>,
    /// What the last listing showed, and when each version changed that a listing showed changed since it
    /// was read. What comes and goes between two looks never was.
    shown: Files,
    unread: BTreeMap<&'static str, Vec<Nanos>>,
    /// Since when each version has not been as it was read.
    waiting: BTreeMap<&'static str, Nanos>,
    hinted: bool,
    looks: Vec<(Nanos, Nanos)>,
    reads: Vec<Read>,
}

fn versions() -> impl Iterator<Item = &'static str> {
    ["a", "a.next", "b"].into_iter()
}

fn of_version(files: &Files, of: &str) -> Files {
    let own = files.iter().filter(|(path, _)| directory::version(path) == Some(of));
    own.map(|(path, stamp)| (path.clone(), stamp.clone())).collect()
}

impl World {
    fn run(scene: Scene) -> Self {
        let plan = Plan::new(Files::new(), scene.poll);
        let mut world = Self {
            plan,
            now: 0,
            next: 0,
            files: Files::new(),
            read: versions().map(|version| (version, Files::new())).collect(),
            touched: BTreeMap::new(),
            shown: Files::new(),
            unread: BTreeMap::new(),
            waiting: BTreeMap::new(),
            hinted: false,
            looks: Vec::new(),
            reads: Vec::new(),
            scene,
        };
        let last = world.scene.changes.iter().map(|change| change.at);
        let last = last.chain(world.scene.blind.map(|(_, until)| until)).max().unwrap_or_default();
        let end = last + 2 * (world.scene.poll + CAP + LONGEST_REST);
        while world.now < end {
            let look = world.plan.next_look(world.hinted).max(world.now);
            match world.scene.changes.get(world.next).map(|change| change.at) {
                Some(at) if at <= look => world.pass(at),
                _ => world.look(look),
            }
        }
        world
    }

    /// Time passes, and what happens in it happens.
    fn pass(&mut self, until: Nanos) {
        while let Some(change) = self.scene.changes.get(self.next).filter(|change| change.at <= until) {
            self.next += 1;
            self.hinted |= change.event;
            let (at, path) = (change.at, PathBuf::from(change.name));
            let before = match change.removed {
                true => self.files.remove(&path),
                false => self.files.insert(path.clone(), Stamp::numbered(self.next as u64)),
            };
            if before != self.files.get(&path).cloned() {
                self.note(&path, at);
            }
        }
        self.now = until;
    }

    fn note(&mut self, path: &Path, at: Nanos) {
        self.touched.insert(path.to_owned(), at);
        let Some(version) = versions().find(|one| directory::version(path) == Some(one)) else { return };
        if of_version(&self.files, version) == self.read[version] {
            self.waiting.remove(version);
        } else {
            self.waiting.entry(version).or_insert(at);
        }
    }

    fn look(&mut self, began: Nanos) {
        self.now = began;
        self.hinted = false;
        let (took, sees_all) = self.scene.looks[self.looks.len() % self.scene.looks.len()];
        let (before, touched) = (self.files.clone(), self.touched.clone());
        self.pass(began + took);
        self.looks.push((began, self.now));
        if self.scene.blind.is_some_and(|(from, until)| (from..until).contains(&began)) {
            self.plan.unlisted(began, self.now);
        } else {
            let now = (self.files.clone(), self.touched.clone());
            let (listed, touched) = if sees_all { now } else { (before, touched) };
            self.compare(&listed, &touched);
            if self.plan.looked(listed, began, self.now) {
                self.rescan();
            }
        }
    }

    fn compare(&mut self, listed: &Files, touched: &BTreeMap<PathBuf, Nanos>) {
        for (path, at) in touched {
            let version = versions().find(|one| directory::version(path) == Some(one));
            if let Some(version) = version.filter(|_| self.shown.get(path) != listed.get(path)) {
                self.unread.entry(version).or_default().push(*at);
            }
        }
        self.shown = listed.clone();
    }

    /// What the catalog does: it reads each version that is not as it was read last, and not changing.
    fn rescan(&mut self) {
        for version in versions() {
            let files = of_version(&self.files, version);
            let path = PathBuf::from(format!("{version}.wasm"));
            let of_it = [path.clone(), path.with_extension("toml"), path.with_extension("wasm.sig")];
            let changing = |path: &Path| self.plan.is_changing(path, || self.files.get(path).cloned());
            if files != self.read[version] && !of_it.iter().any(|path| changing(path)) {
                self.shown.retain(|path, _| directory::version(path) != Some(version));
                self.shown.extend(files.clone());
                let changes = self.unread.remove(version).unwrap();
                let (first, last) = (*changes.iter().min().unwrap(), *changes.iter().max().unwrap());
                let waiting = self.waiting.remove(version).unwrap();
                self.read.insert(version, files.clone());
                self.reads.push(Read { version, at: self.now, last, first, waiting, files });
            }
        }
        self.plan.read(&self.files);
    }
}

fn scene(blind: bool) -> impl Strategy<Value = Scene> {
    let change = (0..6_000 * MILLI, 0..NAMES.len(), prop::bool::weighted(0.2), prop::bool::weighted(0.7));
    // A writer that does not rest, beside changes at random.
    let writer = (0..4_000 * MILLI, 0..NAMES.len(), 1..60usize, 1..190u64, any::<bool>());
    let looks =
        prop::collection::vec((prop_oneof![Just(0), 0..5 * MILLI, 0..90 * MILLI], any::<bool>()), 1..8);
    let blind = if blind { (0..6_000 * MILLI, 0..3_000 * MILLI).boxed() } else { Just((0, 0)).boxed() };
    let poll = prop_oneof![Just(50 * MILLI), Just(300 * MILLI), Just(2 * SECOND)];
    (poll, prop::collection::vec(change, 0..24), prop::collection::vec(writer, 0..3), blind, looks).prop_map(
        |(poll, single, writers, (from, length), looks)| {
            let single = single.into_iter().map(|(at, name, removed, event)| Change {
                at,
                name: NAMES[name],
                removed,
                event,
            });
            let written = writers.into_iter().flat_map(|(at, name, pieces, pause, event)| {
                (0..pieces).map(move |piece| Change {
                    at: at + piece as u64 * pause * MILLI,
                    name: NAMES[name],
                    removed: false,
                    event,
                })
            });
            let mut changes: Vec<_> = single.chain(written).collect();
            changes.sort_by_key(|change| change.at);
            let blind = (length > 0).then_some((from, from + length));
            Scene { poll, changes, blind, looks }
        },
    )
}

proptest! {
    #[test]
    fn no_change_is_lost(scene in scene(true)) {
        let world = World::run(scene);
        for version in versions() {
            prop_assert_eq!(&world.read[version], &of_version(&world.files, version), "{}", version);
        }
    }

    #[test]
    fn what_changes_is_left_alone_until_it_rests_or_the_cap(scene in scene(true)) {
        let world = World::run(scene);
        for read in &world.reads {
            prop_assert!(read.at - read.last >= QUIET || read.at - read.first >= CAP, "{read:?}");
        }
    }

    #[test]
    fn what_changes_is_read_in_time_whatever_comes(scene in scene(false)) {
        let world = World::run(scene);
        let slowest = world.looks.iter().map(|(began, ended)| ended - began).max().unwrap();
        // It happens during a look that misses it, is seen by the end of the one after the next poll or rest,
        // is due at the cap, and read by the end of a look that begins when that one's rest is over.
        let rest = (20 * slowest).clamp(STEP, LONGEST_REST);
        let bound = world.scene.poll.max(rest) + CAP + rest + 4 * slowest;
        for read in &world.reads {
            prop_assert!(read.at - read.waiting <= bound, "{read:?}");
        }
    }

    #[test]
    fn looking_costs_a_twentieth_at_most(scene in scene(true)) {
        let world = World::run(scene);
        for pair in world.looks.windows(2) {
            let ((began, ended), (next, _)) = (pair[0], pair[1]);
            prop_assert!(next - ended >= STEP.max((20 * (ended - began)).min(LONGEST_REST)));
        }
    }
}

fn change(at: Nanos, name: &'static str) -> Change {
    Change { at: at * MILLI, name, removed: false, event: true }
}

fn of(changes: Vec<Change>, poll: Nanos) -> World {
    World::run(Scene { poll, changes, blind: None, looks: vec![(0, true)] })
}

#[test]
fn a_plugin_and_its_settings_changed_together_are_read_together() {
    for (first, second) in [("a.wasm", "a.toml"), ("a.toml", "a.wasm"), ("a.wasm.sig", "a.wasm")] {
        let world = of(vec![change(0, first), change(190, second)], 2 * SECOND);
        let [read] = &world.reads[..] else { panic!("{:?}", world.reads) };
        assert_eq!(read.files.len(), 2, "{read:?}");
        assert!((390 * MILLI..=390 * MILLI + STEP).contains(&read.at), "{read:?}");
    }
}

#[test]
fn a_candidate_does_not_wait_for_the_plugin_nor_one_plugin_for_another() {
    let busy = (0..10).map(|step| change(step * 100, "a.wasm"));
    let mut changes: Vec<_> = busy.chain([change(0, "a.next.wasm"), change(0, "b.wasm")]).collect();
    changes.sort_by_key(|change| change.at);
    let world = of(changes, 2 * SECOND);
    let at = |version| world.reads.iter().find(|read| read.version == version).unwrap().at;
    assert!(at("b") <= QUIET + STEP && at("a.next") <= QUIET + STEP && at("a") >= CAP);
}

#[test]
fn a_still_directory_is_looked_at_once_a_poll() {
    let world = of(vec![], 2 * SECOND);
    let times: Vec<_> = world.looks.iter().map(|(began, _)| began / SECOND).collect();
    assert_eq!(times, [0, 2, 4, 6, 8]);
}

#[test]
fn a_storm_of_events_about_nothing_leads_to_a_look_a_step() {
    let changes =
        (0..10_000).map(|step| Change { at: step * MILLI / 10, ..change(0, "README.md") }).collect();
    let world = of(changes, 2 * SECOND);
    let during = world.looks.iter().filter(|(began, _)| *began <= SECOND).count() as u64;
    assert!(during <= SECOND / STEP + 1, "{during}");
    assert!(world.reads.is_empty());
}

#[test]
fn a_directory_that_comes_back_settles_before_it_is_read() {
    let scene = Scene {
        poll: 50 * MILLI,
        changes: vec![change(0, "a.wasm"), change(5_000, "a.toml")],
        blind: Some((100 * MILLI, 4_900 * MILLI)),
        looks: vec![(0, true)],
    };
    let world = World::run(scene);
    let [read] = &world.reads[..] else { panic!("{:?}", world.reads) };
    assert!(read.at >= 5_000 * MILLI + QUIET && read.files.len() == 2, "{read:?}");
}
