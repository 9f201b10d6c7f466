//! A request at one decode endpoint, after legs at others, in the engines' dialect.
//!
//! The endpoint is reserved before the first leg begins, so that nothing waits between them: what prefill hands over
//! is kept for a lease. A leg that fails is tried at its next endpoint; a hand-over that fails is redone once with a
//! fresh prefill; then the endpoint does all of it by itself. The answer counts as begun with its first byte, not
//! with its head: engines send the head of a stream before they know whether the cache arrives.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::CONTENT_LENGTH;

use super::attempt::Missed;
use super::body::Sent;
use super::headers::is_stream;
use super::job::{Fetch, Job};
use super::legs::{self, LegCall, LegDone, LegFault};
use super::upstream::{Answered, SendError};
use crate::disagg::{self, Ask, Introduction, Order, Pair};
use crate::policy::{LegStage, Serving};
use crate::pool::{Endpoint, Reservation};
use crate::route::{self, PlannedLeg};
use crate::telemetry::Lease;
use crate::types::{Dialect, Role};

/// Hand-overs that fail at one decode endpoint before it does all by itself.
const MAX_HANDOVERS: u32 = 2;

/// Bytes of an answer that is no stream which are held back until it is whole: nobody can use a part of it, and so it
/// can still be redone.
const MAX_HELD: usize = 1024 * 1024;

/// What a split at one decode endpoint came to.
pub(super) enum Split {
    /// It is not split, or no way of splitting it is left: the endpoint has to do all of it.
    Whole,
    /// Its answer has begun.
    Answered(Opened),
    /// The endpoint cannot be used.
    Missed(Missed),
}

/// An answer whose first bytes are there.
pub(super) struct Opened {
    pub(super) answered: Answered,
    pub(super) first: Option<Bytes>,
}

impl From<Answered> for Opened {
    fn from(answered: Answered) -> Self {
        Self { answered, first: None }
    }
}

/// Why there is no answer from the decode endpoint after its legs.
enum Fault {
    /// A leg came to nothing.
    Leg(LegFault),
    /// The decode endpoint cannot be asked.
    Decode(SendError),
    /// It was asked, and does not take what it was handed.
    Handover(String),
}

/// A split under way.
struct Plan<'a> {
    decode: &'a Arc<Endpoint>,
    dialect: Dialect,
    sent: &'a Bytes,
}

impl Job {
    /// Runs the legs before this decode endpoint, and asks it.
    pub(super) async fn split(
        &mut self,
        decode: &Arc<Endpoint>,
        legs: Option<Vec<PlannedLeg>>,
        serving: &Serving,
        reserved: &mut Reservation,
        sent: &Bytes,
    ) -> Split {
        let Some(mut legs) = legs else { return Split::Whole };
        let Some(dialect) = self.dialect(decode) else { return self.whole(None, "no_dialect") };
        let alone = stands_alone(dialect, decode.role);
        if legs.is_empty() && alone {
            return self.whole(Some(dialect), "stayed");
        }
        if let Some(why) = disagg::unsplit(dialect, self.request.api, sent)
            && alone
        {
            return self.whole(Some(dialect), why.as_str());
        }
        if legs.is_empty() {
            legs = route::any_prefill(&self.service.lane, serving, &self.request, decode);
        }
        // From here on its prompt is not prefilled there.
        reserved.first_token();
        self.spends();
        let plan = Plan { decode, dialect, sent };
        self.encode(&plan, &legs).await;
        let mut handovers = 0;
        for prefill in
            legs.iter().filter(|leg| leg.stage == LegStage::Prefill).flat_map(|leg| leg.order.iter())
        {
            if self.dialect(prefill) != Some(dialect) {
                self.trace.tried(prefill, "it hands over in another way than the decode endpoint");
                continue;
            }
            let fault = match self.attempt(&plan, prefill).await {
                Ok(opened) => {
                    self.trace.split(dialect, "split");
                    self.service.metrics.split.outcome("split");
                    return Split::Answered(opened);
                }
                Err(fault) => fault,
            };
            self.proxy.upstream.introduced.forget(prefill.id);
            match fault {
                Fault::Leg(fault) => {
                    self.trace.tried(prefill, fault.to_string());
                    if fault.is_everywhere() {
                        break;
                    }
                }
                Fault::Decode(error) => {
                    self.service.metrics.split.fault("decode", legs::unsent(&error));
                    return Split::Missed(error.into());
                }
                Fault::Handover(why) => {
                    self.service.metrics.split.fault("decode", "handover");
                    self.trace.tried(decode, why);
                    handovers += 1;
                    if handovers == MAX_HANDOVERS {
                        break;
                    }
                }
            }
        }
        if !alone {
            return Split::Missed(Missed::Free("nobody is left to prefill for it".into()));
        }
        *reserved = self.service.lane.reserve(&self.request, decode);
        self.whole(Some(dialect), "failed")
    }

    fn whole(&mut self, dialect: Option<Dialect>, outcome: &'static str) -> Split {
        self.service.metrics.split.outcome(outcome);
        if let Some(dialect) = dialect {
            self.trace.split(dialect, outcome);
        }
        Split::Whole
    }

    /// The dialect that the endpoint's engine speaks.
    fn dialect(&self, endpoint: &Endpoint) -> Option<Dialect> {
        let config = &self.service.config;
        config.dialect.known().or_else(|| match config.engine.known().or(endpoint.report().engine) {
            // Endpoints that have roles and do not say what they are, are believed to be vLLM.
            None => Some(Dialect::Nixl),
            Some(engine) => Dialect::usual(engine),
        })
    }

    /// Legs that encode images, audio or video. No engine has to be told anything: what comes later finds the results in
    /// the engines' own store. One that fails is done by prefill.
    async fn encode(&mut self, plan: &Plan<'_>, legs: &[PlannedLeg]) {
        for leg in legs.iter().filter(|leg| leg.stage == LegStage::Encode) {
            for endpoint in leg.order.iter() {
                let pair = self.pair(plan, endpoint);
                let ask = Ask { api: self.request.api, body: plan.sent, pair: &pair };
                let Ok(body) = disagg::prefill(Dialect::Storage, ask) else { return };
                let Some(call) = LegCall::new(self, endpoint, LegStage::Encode, body) else { return };
                match call.run().await {
                    Ok(_) => break,
                    Err(fault) => self.trace.tried(endpoint, fault.to_string()),
                }
            }
        }
    }

    /// Prefill at this endpoint, then decode.
    async fn attempt(&mut self, plan: &Plan<'_>, prefill: &Arc<Endpoint>) -> Result<Opened, Fault> {
        let mut pair = self.pair(plan, prefill);
        if disagg::introduces(plan.dialect) == Introduction::EngineId {
            let asked = self.proxy.upstream.introduced.engine_id(
                prefill,
                pair.prefill_port,
                self.service.config.connect_timeout,
            );
            pair.engine_id = asked.await.map_err(|why| Fault::Leg(LegFault::Introduction(why)))?;
        }
        let ask = Ask { api: self.request.api, body: plan.sent, pair: &pair };
        let leg = disagg::prefill(plan.dialect, ask).map_err(|error| Fault::Leg(error.into()))?;
        let nowhere = || Fault::Handover("its URL takes no path".into());
        let call = LegCall::new(self, prefill, LegStage::Prefill, leg).ok_or_else(nowhere)?;
        match disagg::order(plan.dialect) {
            Order::Serial => {
                let done = call.run().await.map_err(Fault::Leg)?;
                self.trace.prefilled(prefill, Some(done.took));
                let lease = self.lease(plan);
                let LegDone { answer, .. } = done;
                let leg = disagg::decode(plan.dialect, ask, &answer).map_err(|error| {
                    self.service.metrics.split.fault("prefill", "unusable");
                    Fault::Leg(error.into())
                })?;
                let opened = self.ask_decode(plan, &leg, true).await?;
                if let Some(lease) = lease {
                    lease.fetched();
                }
                Ok(opened)
            }
            Order::Together => {
                let leg = disagg::decode(plan.dialect, ask, b"").map_err(|error| Fault::Leg(error.into()))?;
                if disagg::merges(plan.dialect, ask) {
                    return self.merged(plan, prefill, call.beside_decode(), &leg).await;
                }
                self.together(plan, prefill, call.beside_decode(), &leg).await
            }
        }
    }

    /// Both legs at once. Whichever fails first takes the other one with it. When decode has begun to answer the cache is
    /// there, and prefill ends by itself.
    async fn together(
        &mut self,
        plan: &Plan<'_>,
        prefill: &Arc<Endpoint>,
        call: LegCall,
        leg: &disagg::Leg,
    ) -> Result<Opened, Fault> {
        let lease = self.lease(plan);
        let mut running = Box::pin(call.run());
        let opened = {
            let decode = self.ask_decode(plan, leg, false);
            tokio::pin!(decode);
            tokio::select! {
                biased;
                done = &mut running => match done {
                    Ok(_) => decode.await?,
                    Err(fault) => return Err(Fault::Leg(fault)),
                },
                opened = &mut decode => {
                    let opened = opened?;
                    tokio::spawn(running);
                    opened
                }
            }
        };
        self.trace.prefilled(prefill, None);
        if let Some(lease) = lease {
            lease.fetched();
        }
        Ok(opened)
    }

    /// Both legs at once, whose answers make one.
    async fn merged(
        &mut self,
        plan: &Plan<'_>,
        prefill: &Arc<Endpoint>,
        call: LegCall,
        leg: &disagg::Leg,
    ) -> Result<Opened, Fault> {
        let lease = self.lease(plan);
        let decode = self.ask_decode(plan, leg, false);
        let prefilled = async { call.run().await.map_err(Fault::Leg) };
        let (done, mut opened) = tokio::try_join!(prefilled, decode)?;
        self.trace.prefilled(prefill, None);
        if let Some(lease) = lease {
            lease.fetched();
        }
        if let Some(merged) = opened.first.as_ref().and_then(|first| disagg::merged(first, &done.answer)) {
            opened.answered.response.headers_mut().remove(CONTENT_LENGTH);
            opened.first = Some(merged);
        }
        Ok(opened)
    }

    /// Asks the decode endpoint, and waits for the first bytes of its answer.
    async fn ask_decode(
        &mut self,
        plan: &Plan<'_>,
        leg: &disagg::Leg,
        is_timed: bool,
    ) -> Result<Opened, Fault> {
        let Plan { decode, .. } = plan;
        let Some(head) = legs::head(self, decode, leg) else {
            return Err(Fault::Handover("its URL takes no path".into()));
        };
        // Others were served while the prompt was computed elsewhere.
        let held = self.service.lane.cached_tokens(&self.request, decode);
        self.start(decode);
        self.fetches = is_timed.then(|| Fetch {
            tokens: self.request.prompt_tokens.saturating_sub(held),
            is_held_up: decode.load.prefill_tokens() > 0,
        });
        let remake = || Some(head.clone().map(|()| Sent::Whole(Some(leg.body.clone()))));
        let opened = match self.send(decode, remake).await {
            Ok(answered) => self.open(answered).await,
            // It may wait for a cache that never comes: the endpoint itself is there.
            Err(error @ SendError::Timeout(_)) => Err(Fault::Handover(error.to_string())),
            Err(error) => Err(Fault::Decode(error)),
        };
        if opened.is_err() {
            self.fetches = None;
            self.service.lane.unsent(&self.request, decode, held);
        }
        opened
    }

    async fn open(&self, mut answered: Answered) -> Result<Opened, Fault> {
        let status = answered.response.status();
        if !status.is_success() {
            return Err(Fault::Handover(format!("it answered {status} to what prefill handed over")));
        }
        let enough = if is_stream(answered.response.headers()) { 1 } else { MAX_HELD };
        let body = answered.response.body_mut();
        let idle = self.service.config.idle_timeout;
        let mut first = BytesMut::new();
        while first.len() < enough {
            let frame = tokio::time::timeout(idle, body.frame()).await;
            let frame = frame.map_err(|_| {
                Fault::Handover(format!("nothing came for {} ms after prefill", idle.as_millis()))
            })?;
            match frame {
                None => break,
                Some(Err(error)) => return Err(Fault::Decode(SendError::Broken(error))),
                Some(Ok(frame)) => first.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
        if disagg::is_error_event(&first) {
            return Err(Fault::Handover("its stream began with an error".into()));
        }
        Ok(Opened { answered, first: Some(first.freeze()).filter(|first| !first.is_empty()) })
    }

    fn pair(&self, plan: &Plan<'_>, prefill: &Endpoint) -> Pair {
        let port = |endpoint: &Endpoint| {
            endpoint.bootstrap_port.unwrap_or_else(|| disagg::bootstrap_port(plan.dialect))
        };
        Pair {
            prefill_host: prefill.url.host.clone(),
            prefill_port: port(prefill),
            decode_host: plan.decode.url.host.clone(),
            decode_port: port(plan.decode),
            // A quarter of the room numbers is left free for the further prompts of a batch.
            room: RandomState::new().hash_one(&self.request.id) >> 2,
            engine_id: Box::default(),
        }
    }

    /// What is kept for decode, where engines keep anything.
    fn lease(&self, plan: &Plan<'_>) -> Option<Lease> {
        (plan.dialect != Dialect::Storage).then(|| self.service.metrics.split.lease())
    }

    /// Asks once more whether to split, for another decode endpoint.
    pub(super) fn split_again(&self, serving: &Serving, decode: &Arc<Endpoint>) -> Option<Vec<PlannedLeg>> {
        let budget = self.proxy.policy_budget();
        route::split_again(&self.service.lane, serving, &self.request, decode, &budget)
    }
}

/// Whether an engine of this role serves requests that are not split. SGLang's do not: one that was started to
/// prefill or to decode refuses whatever names no room.
fn stands_alone(dialect: Dialect, role: Role) -> bool {
    dialect != Dialect::Sglang || role == Role::Both
}
