//! Native policies as shadows, on the thread.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use super::queue::{MAX_MESSAGES, Message, Queue};
use super::*;
use crate::clock::ManualClock;
use crate::flow::Selection;
use crate::policy::{
    Call, CallError, Chain, EndpointView, EventKind, FlowControl, FlowRow, Flows, OnEmpty, OnError, Own,
    OwnFactory, Placement, Reason, Scorer, Stages,
};
use crate::route::Lane;
use crate::route::tests::{Says, chosen, lane, plugin, ports, request, scorer};

fn shadow(stages: Stages) -> Arc<Shadow> {
    let plugin = plugin(OnError::Default, OnEmpty::Reject);
    Arc::new(Shadow { plugin, weight: 1.0, stages, stats: Arc::default() })
}

fn watched_by(sink: Arc<dyn ShadowSink>) -> Arc<Lane> {
    let mut lane = Arc::into_inner(lane(2)).unwrap();
    lane.shadows = Some(sink);
    Arc::new(lane)
}

fn chain(shadow: &Arc<Shadow>) -> Chain {
    Chain {
        scorers: vec![scorer(Ok(vec![0.0, 1.0]), OnError::Default)],
        shadows: vec![Arc::clone(shadow)],
        ..Chain::default()
    }
}

/// Waits for the thread.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

impl ShadowSink for Queue {
    fn has_room(&self) -> bool {
        // As when room is lost between the question and the offer.
        true
    }

    fn offer(&self, snapshot: Snapshot) {
        self.push(Message::Decided(snapshot));
    }
}

#[test]
fn a_queue_that_nobody_empties_blocks_nobody_and_counts_what_it_drops() {
    let queue = Arc::new(Queue::default());
    let lane = watched_by(Arc::clone(&queue) as _);
    let shadow = shadow(Stages { scorer: Some(Arc::new(Says(Ok(vec![1.0, 0.0])))), ..Stages::default() });
    let chain = chain(&shadow);
    for n in 0..MAX_MESSAGES + 44 {
        assert_eq!(ports(&chosen(&lane, &chain, &request(&n.to_string(), "x")).0.unwrap()), [2, 1]);
    }
    assert!(!queue.has_room());
    assert_eq!(shadow.stats.counts().dropped, 44);
}

#[test]
fn bodies_that_wait_are_bounded_in_bytes() {
    let queue = Arc::new(Queue::default());
    let lane = watched_by(Arc::clone(&queue) as _);
    let shadow = shadow(Stages { scorer: Some(Arc::new(Says(Ok(vec![1.0, 0.0])))), ..Stages::default() });
    let chain = chain(&shadow);
    for n in 0..8 {
        let mut request = Arc::into_inner(request(&n.to_string(), "x")).unwrap();
        request.body = vec![0; 10 << 20].into();
        chosen(&lane, &chain, &Arc::new(request)).0.unwrap();
    }
    assert_eq!(shadow.stats.counts().dropped, 5, "three of 10 MiB fit, with what was made of them");
}

/// Answers when it is told to.
struct Stuck(Mutex<mpsc::Receiver<()>>);

impl Scorer for Stuck {
    fn score(&self, _: Call<'_>) -> Result<Vec<f32>, CallError> {
        let _ = self.0.lock().recv();
        Ok(vec![1.0, 0.0])
    }
}

#[test]
fn a_shadow_that_does_not_answer_delays_no_request() {
    let shadowing = Arc::new(Shadowing::start(ManualClock::at(1)).unwrap());
    let lane = watched_by(Arc::clone(&shadowing) as _);
    let (free, stuck) = mpsc::channel();
    let stages = Stages { scorer: Some(Arc::new(Stuck(Mutex::new(stuck)))), ..Stages::default() };
    let shadow = shadow(stages);
    let chain = chain(&shadow);
    // The thread may hold one besides those that wait.
    let asked = MAX_MESSAGES + 10;
    for n in 0..asked {
        assert_eq!(ports(&chosen(&lane, &chain, &request(&n.to_string(), "x")).0.unwrap()), [2, 1]);
    }
    let dropped = shadow.stats.counts().dropped;
    assert!((9..=10).contains(&dropped), "{dropped}");
    drop(free);
    let judged = asked as u64 - dropped;
    until("all that waited are judged", || shadow.stats.counts().requests == judged);
    assert_eq!(shadow.stats.counts().to_json()["agreement"]["scorer"]["differ"], judged);
}

/// An own instance that says what it heard, and always wants the second flow.
struct Second(Arc<Mutex<Vec<&'static str>>>);

impl Own for Second {
    fn select(&mut self, _: &Arc<Flows>, _: &Arc<dyn EndpointView>, _: u32) -> Result<Vec<u32>, CallError> {
        self.0.lock().push("select");
        Ok(vec![1, 0])
    }

    fn saturation(&mut self, _: &Arc<dyn EndpointView>) -> Result<f32, CallError> {
        self.0.lock().push("saturation");
        Ok(0.75)
    }

    fn observe(&mut self, _: &Arc<[Event]>) -> Result<(), CallError> {
        self.0.lock().push("observe");
        Ok(())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        Ok(None)
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), CallError> {
        Ok(())
    }
}

struct Seconds {
    heard: Arc<Mutex<Vec<&'static str>>>,
    made: Mutex<usize>,
}

impl OwnFactory for Seconds {
    fn own(&self) -> Result<Box<dyn Own>, CallError> {
        *self.made.lock() += 1;
        Ok(Box::new(Second(Arc::clone(&self.heard))))
    }
}

struct Nowhere;

impl FlowControl for Nowhere {
    fn place(&self, _: Call<'_>) -> Result<Placement, CallError> {
        Err(CallError::new(Reason::Invalid, "not asked here"))
    }
}

fn row(id: u32, name: &str) -> FlowRow {
    FlowRow {
        id,
        name: name.into(),
        band: 0,
        length: 1,
        head_age_ms: 0,
        head_cost: 1,
        head_rank: 0.0,
        head_deadline_ms: None,
        weight: 1.0,
        inflight_tokens: 0,
        served_tokens: 0,
    }
}

fn round(flows: &[&str], chosen: Vec<u32>) -> Round {
    let rows = flows.iter().zip(0..).map(|(name, id)| row(id, name)).collect();
    let selection = Selection { flows: Arc::new(Flows { rows }), count: 2, chosen };
    Round { saturation: Some(0.25), selection: Some(selection), went: 1 }
}

fn events() -> Heard {
    let event = Event {
        kind: EventKind::Dispatched,
        request: "r".into(),
        flow: Some(0),
        band: Some(0),
        endpoint: None,
        at_ms: 1,
        prompt_tokens: 1,
        cached_tokens: None,
        output_tokens: 0,
    };
    Heard::Events([event].into())
}

#[test]
fn own_instances_hear_all_in_order_and_their_choice_is_compared() {
    let seconds = Arc::new(Seconds { heard: Arc::default(), made: Mutex::new(0) });
    let stages =
        Stages { flow: Some(Arc::new(Nowhere)), own: Some(Arc::clone(&seconds) as _), ..Stages::default() };
    let shadow = shadow(stages);
    let shadows: Arc<[_]> = [Arc::clone(&shadow)].into();
    let seen = lane(2).standing(&Chain::default()).freeze();
    let shadowing = Shadowing::start(ManualClock::at(1)).unwrap();
    let hear = |pool: &str, heard: Heard| shadowing.hear(pool, &shadows, heard);
    hear("p", events());
    hear("p", Heard::Round(round(&["a", "b"], vec![0, 1]), Arc::clone(&seen)));
    hear("p", Heard::Round(round(&["a", "b"], vec![1]), Arc::clone(&seen)));
    hear("p", Heard::Round(Round { saturation: Some(1.0), ..Round::default() }, Arc::clone(&seen)));
    hear("q", events());
    until("all is heard", || seconds.heard.lock().len() == 7);
    until("it lets go of what it heard", || Arc::strong_count(&seen) == 1);
    assert_eq!(
        *seconds.heard.lock(),
        ["observe", "saturation", "select", "saturation", "select", "saturation", "observe"]
    );
    assert_eq!(*seconds.made.lock(), 2, "one a pool");
    let shown = shadow.stats.counts().to_json();
    assert_eq!(shown["agreement"]["select"], json!({"agree": 1, "differ": 1, "failed": 0}));
    assert_eq!(shown["last_order"], json!({"actual": ["b"], "shadow": ["b", "a"]}));
    assert_eq!(shown["saturation_distance"].as_f64().map(|mean| (mean * 100.0).round()), Some(42.0));
}

#[test]
fn what_own_instances_do_not_hear_is_counted_as_a_gap() {
    let queue = Queue::default();
    let shadow = shadow(Stages::default());
    let shadows: Arc<[_]> = [Arc::clone(&shadow)].into();
    for _ in 0..MAX_MESSAGES + 3 {
        queue.push(Message::Heard { pool: "p".into(), shadows: Arc::clone(&shadows), heard: events() });
    }
    assert_eq!(shadow.stats.counts().gaps, 3);
}

#[test]
fn an_own_instance_goes_with_its_shadow() {
    let clock = ManualClock::at(1);
    let seconds = Arc::new(Seconds { heard: Arc::default(), made: Mutex::new(0) });
    let shadow = shadow(Stages { own: Some(Arc::clone(&seconds) as _), ..Stages::default() });
    let mut owns = Owns::default();
    owns.hear("p", &[Arc::clone(&shadow)], &events(), &*clock);
    assert_eq!(Arc::strong_count(&seconds.heard), 2);
    clock.advance(2 * crate::clock::SECOND);
    owns.keep(&*clock);
    assert_eq!(Arc::strong_count(&seconds.heard), 2);
    drop(shadow);
    clock.advance(2 * crate::clock::SECOND);
    owns.keep(&*clock);
    assert_eq!(Arc::strong_count(&seconds.heard), 1);
}
