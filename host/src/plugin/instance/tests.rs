use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::*;
use crate::clock::ManualClock;
use crate::config::{PluginConfig, Wasi};
use crate::plugin::artifact::Artifact;
use crate::plugin::builtin;
use crate::plugin::case::Recorder;
use crate::plugin::engine::Runtime;
use crate::plugin::host::Grants;
use crate::policy::{Registry, Source};

struct Plugin {
    population: Arc<Population>,
    instances: Arc<Instances>,
    at_once: usize,
    clock: Arc<ManualClock>,
    _runtime: Runtime,
}

/// A default plugin, taken for a slow one or a cheap one.
fn plugin(slow: bool) -> Plugin {
    let runtime = Runtime::start(None).unwrap();
    let bytes = builtin::bytes("prefix-affinity").expect("built by `cargo xtask plugins`");
    let artifact = Artifact::read(bytes).unwrap();
    let linked = Linked::new(&runtime, &artifact, Source::Builtin, 64 << 20, Wasi::None).unwrap();
    let linked = Arc::new(linked);
    let population = Arc::new(Population::default());
    let clock = ManualClock::at(MAX_AGE);
    linked.alive.get_or_init(|| population.generation());
    let shared = Arc::new(Shared {
        name: "prefix-affinity".into(),
        clock: Arc::clone(&clock) as _,
        registry: Arc::new(Registry::default()),
        store: Arc::default(),
        series: Arc::default(),
        quota: Arc::default(),
        recorder: Recorder {
            config: PluginConfig::named("prefix-affinity"),
            digest: artifact.digest.clone(),
            cases: Arc::default(),
        },
        population: Arc::clone(&population),
        grants: Grants::default(),
        memory_bytes: 64 << 20,
        resolved: Mutex::default(),
    });
    let instances = Arc::new(Instances::new(linked, shared, "{}".into()));
    instances.ready_when(|_| slow).unwrap();
    let at_once = std::thread::available_parallelism().unwrap().get();
    Plugin { population, instances, at_once, clock, _runtime: runtime }
}

/// Waits for the keeper, which works on its own thread.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_cheap_guest_is_made_on_the_spot_and_reused() {
    let plugin = plugin(false);
    assert_eq!(plugin.population.instances(), 1);
    let (one, two) = (plugin.instances.take().unwrap(), plugin.instances.take().unwrap());
    assert_eq!(plugin.population.instances(), 2);
    plugin.instances.give_back(one);
    plugin.instances.lose(two);
    until("the lost one is dropped", || plugin.population.instances() == 1);
    let again = plugin.instances.take().unwrap();
    assert_eq!(plugin.population.instances(), 1);
    plugin.instances.give_back(again);
}

#[test]
fn nobody_waits_for_a_slow_guest_and_it_is_made_up_for() {
    let plugin = plugin(true);
    assert_eq!(plugin.population.instances(), plugin.at_once);
    let mut taken: Vec<_> = (0..plugin.at_once).map(|_| plugin.instances.take().unwrap()).collect();
    let error = plugin.instances.take().map(drop).unwrap_err();
    assert_eq!(error.reason, Reason::Warming);
    assert!(!error.reason.is_failure());
    plugin.instances.lose(taken.pop().unwrap());
    until("there is another", || plugin.instances.take().map(|warm| taken.push(warm)).is_ok());
    assert_eq!(taken.len(), plugin.at_once);
}

#[test]
fn one_that_is_taken_for_keeps_is_made_up_for() {
    let plugin = plugin(true);
    let kept = plugin.instances.take_out().unwrap();
    until("the pool is whole again", || plugin.population.instances() == plugin.at_once + 1);
    plugin.instances.discard(kept);
    until("it is gone", || plugin.population.instances() == plugin.at_once);
}

#[test]
fn an_aged_instance_serves_until_there_is_another() {
    let plugin = plugin(true);
    let mut taken: Vec<_> = (0..plugin.at_once).map(|_| plugin.instances.take().unwrap()).collect();
    for warm in &mut taken {
        warm.calls = MAX_CALLS;
    }
    for warm in taken {
        plugin.instances.give_back(warm);
        let again = plugin.instances.take().expect("there is always one");
        plugin.instances.give_back(again);
    }
    until("none of them is left", || {
        let taken: Vec<_> = std::iter::from_fn(|| plugin.instances.take().ok()).collect();
        let fresh = taken.iter().filter(|warm| !warm.aged()).count();
        taken.into_iter().for_each(|warm| plugin.instances.give_back(warm));
        fresh == plugin.at_once
    });
    until("there are no more than before", || plugin.population.instances() == plugin.at_once);
}

#[test]
fn an_instance_in_use_ages_with_time() {
    let plugin = plugin(false);
    let mut warm = plugin.instances.take().unwrap();
    let call = |warm: &mut Warm| {
        warm.call(Subject::default(), SETUP_LIMIT, |store, exports| exports.plugin.call_describe(store))
            .answer
            .unwrap();
    };
    call(&mut warm);
    plugin.clock.advance(MAX_AGE - 1);
    call(&mut warm);
    assert!(!warm.aged());
    plugin.clock.advance(1);
    call(&mut warm);
    assert!(warm.aged());
}

#[test]
fn a_version_goes_with_all_that_it_has() {
    let Plugin { population, instances, .. } = plugin(true);
    let lent = instances.take().unwrap();
    assert_eq!(population.generations(), 1);
    instances.give_back(lent);
    drop(instances);
    until("its code is dropped", || population.generations() == 0);
    assert_eq!(population.instances(), 0);
}
