//! Virtual token counters: how much service each flow has had for its weight (Sheng et al., OSDI 2024).

use std::collections::{HashMap, HashSet};

use crate::band::Band;
use crate::light::Light;

/// What is known of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flow {
    /// Service had, in priced tokens for a weight of 1.
    pub(crate) served: f64,
    pub(crate) weight: f64,
    /// The same with what was long ago faded, as of `faded_ms`.
    pub(crate) attained: f64,
    pub(crate) faded_ms: u64,
    /// When it had its last turn, in turns of all.
    pub(crate) turn: u64,
    /// Moving average of output tokens; none before the first answer.
    pub(crate) output: Option<f32>,
    pub(crate) seen_ms: u64,
    /// None until it is known from an event, or from waiting.
    pub(crate) band: Option<i32>,
    /// Requests that were sent, up to [`KNOWN_AFTER`].
    pub(crate) sent: u8,
    /// Requests under way.
    pub(crate) running: u32,
    /// What it has under way of what went while it had no backlog.
    pub(crate) light: Light,
    pub(crate) backlog: bool,
}

/// A flow that waits, as `select` sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) id: u32,
    pub(crate) band: i32,
    pub(crate) weight: f32,
    /// Its head has waited for so long that it was no chance.
    pub(crate) is_old: bool,
}

/// What was counted when a request was sent, to be taken back when it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    flow: u32,
    tokens: f64,
    /// Its part of what the newcomers of its band are charged, for each token.
    newcomers: Option<(i32, f64)>,
    /// The band among whose flows without a backlog it counts.
    light: Option<i32>,
}

/// Requests with which a flow is known: before, it shares an account with all others that are not.
pub(crate) const KNOWN_AFTER: u8 = 4;

/// Flows not heard of for so long are forgotten; they come back as new ones.
const FORGET_AFTER_MS: u64 = 10 * 60 * 1_000;

/// Flows that are remembered at most; those not heard of for longest go first.
const MOST_FLOWS: usize = 65_536;

/// Bands that are remembered at most, beside those in use.
const MOST_BANDS: usize = 1_024;

/// How often those that nobody waits in are looked for then.
const SWEEP_BANDS_MS: u64 = 1_000;

/// Weight of the newest answer in the moving average of output tokens.
const NEWEST: f32 = 0.1;

impl Flow {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            served: 0.0,
            weight: 1.0,
            attained: 0.0,
            faded_ms: now_ms,
            turn: 0,
            output: None,
            seen_ms: now_ms,
            band: None,
            sent: 0,
            running: 0,
            light: Light::default(),
            backlog: false,
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.sent < KNOWN_AFTER
    }

    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    fn attained_at(&self, now_ms: u64, half_life_ms: f64) -> f64 {
        let halves = now_ms.saturating_sub(self.faded_ms) as f64 / half_life_ms;
        self.attained * (-halves).exp2()
    }

    fn charge(&mut self, tokens: f64, now_ms: u64, half_life_ms: f64) {
        self.served += tokens / self.weight;
        self.attained = (self.attained_at(now_ms, half_life_ms) + tokens / self.weight).max(0.0);
        self.faded_ms = now_ms;
    }
}

/// The counters of all flows.
#[derive(Debug)]
pub(crate) struct Counters {
    half_life_ms: f64,
    burst_ms: u64,
    new_share: f64,
    pub(crate) flows: HashMap<u32, Flow>,
    pub(crate) bands: HashMap<i32, Band>,
    /// The greatest service that any flow has had.
    pub(crate) most: f64,
    /// Moving average of output tokens over all flows; none before the first answer.
    output: Option<f32>,
    pub(crate) waiting: HashSet<u32>,
    swept_ms: u64,
    bands_swept_ms: u64,
    turns: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self::new(&crate::Config::default())
    }
}

impl Counters {
    /// No flows yet.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the bounds of the key"
    )]
    pub(crate) fn new(config: &crate::Config) -> Self {
        Self {
            half_life_ms: config.half_life_s * 1_000.0,
            burst_ms: (config.burst_s * 1_000.0) as u64,
            new_share: config.new_share,
            flows: HashMap::new(),
            bands: HashMap::new(),
            most: 0.0,
            output: None,
            waiting: HashSet::new(),
            swept_ms: 0,
            bands_swept_ms: 0,
            turns: 0,
        }
    }

    /// A request of a flow goes that is expected to take so many tokens, in this band if that is known.
    pub(crate) fn sent(&mut self, id: u32, band: Option<i32>, tokens: f64, now_ms: u64) -> Sent {
        let (half_life_ms, burst_ms) = (self.half_life_ms, self.burst_ms);
        if let Some(band) = band {
            self.joins(id, band, now_ms);
        }
        let flow = self.flow(id, now_ms);
        let before = flow.served;
        let is_new = flow.is_new();
        flow.charge(tokens, now_ms, half_life_ms);
        flow.sent = flow.sent.saturating_add(1).min(KNOWN_AFTER);
        flow.running += 1;
        let light = flow.band.filter(|_| !flow.backlog);
        if light.is_some() {
            flow.light.started(now_ms);
        }
        let (served, band) = (flow.served, flow.band);
        self.most = self.most.max(served);
        let mut sent = Sent { flow: id, tokens, newcomers: None, light };
        if let Some((band, state)) = band.and_then(|band| Some((band, self.bands.get_mut(&band)?))) {
            state.time.passes(before, now_ms, burst_ms);
            // While nobody waits nobody has to be spared.
            if is_new && !state.is_quiet(now_ms) {
                sent.newcomers = Some((band, 1.0 / state.newcomers.weight));
                state.newcomers.served += tokens / state.newcomers.weight;
            }
            if light.is_some() {
                state.light.started(now_ms);
            }
        }
        sent
    }

    /// It has ended, and took so many.
    pub(crate) fn ended(&mut self, sent: Sent, tokens: f64, now_ms: u64) {
        let (half_life_ms, more) = (self.half_life_ms, tokens - sent.tokens);
        let flow = self.flow(sent.flow, now_ms);
        flow.charge(more, now_ms, half_life_ms);
        flow.running = flow.running.saturating_sub(1);
        // What went before it had a backlog was taken out with that.
        let light = sent.light.filter(|_| flow.light.ended());
        let served = flow.served;
        self.most = self.most.max(served);
        if let Some(band) = light.and_then(|band| self.bands.get_mut(&band)) {
            band.light.ended();
        }
        if let Some((band, share)) = sent.newcomers
            && let Some(band) = self.bands.get_mut(&band)
        {
            band.newcomers.served += more * share;
        }
    }

    /// The service of late.
    pub(crate) fn attained(&self, id: u32, now_ms: u64) -> f64 {
        self.flows.get(&id).map_or(0.0, |flow| flow.attained_at(now_ms, self.half_life_ms))
    }

    /// A flow has its turn.
    pub(crate) fn has_turn(&mut self, id: u32, now_ms: u64) {
        self.turns += 1;
        self.flow(id, now_ms).turn = self.turns;
    }

    /// Turns of all when the flow had its last; 0 when it had none.
    pub(crate) fn turn(&self, id: u32) -> u64 {
        self.flows.get(&id).map_or(0, |flow| flow.turn)
    }

    /// Takes note of how long a flow's answer was.
    pub(crate) fn answered(&mut self, id: u32, output: f32, now_ms: u64) {
        let flow = self.flow(id, now_ms);
        flow.output = Some(flow.output.map_or(output, |usual| usual + NEWEST * (output - usual)));
        self.output = Some(self.output.map_or(output, |usual| usual + NEWEST * (output - usual)));
    }

    /// Output tokens to expect of a flow.
    pub(crate) fn expected_output(&self, id: u32) -> Option<f32> {
        self.flows.get(&id)?.output
    }

    pub(crate) fn usual_output(&self) -> Option<f32> {
        self.output
    }

    pub(crate) fn served(&self, id: u32) -> f64 {
        self.flows.get(&id).map_or(self.most, |flow| flow.served)
    }

    /// Whether a flow has had its share and more to send.
    pub(crate) fn backlog(&self, id: u32) -> bool {
        self.flows.get(&id).is_some_and(|flow| flow.backlog)
    }

    /// How many more of each flow may go now, where that is bounded: while it is not known what the flows of a band need,
    /// whoever of those that wait has most under way leaves as many of the `places` of the pool free as it has, of which
    /// `running` are taken (dynamic thresholds: Choudhury and Hahne, 1998).
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; a cast saturates"
    )]
    pub(crate) fn bounds(
        &self,
        waiting: &[Waiting],
        places: f32,
        running: f32,
        now_ms: u64,
    ) -> HashMap<u32, u32> {
        let is_unknown = |band: i32| self.bands.get(&band).is_some_and(|band| !band.is_known(now_ms));
        let mut most: HashMap<i32, (u32, Vec<u32>)> = HashMap::new();
        for one in waiting.iter().filter(|one| is_unknown(one.band)) {
            let running = self.flows.get(&one.id).map_or(0, |flow| flow.running);
            let (most, flows) = most.entry(one.band).or_default();
            if running > *most {
                (*most, *flows) = (running, Vec::new());
            }
            if running == *most && running > 0 {
                flows.push(one.id);
            }
        }
        let bound = |most: u32| ((places - running - most as f32) / 2.0).ceil().max(0.0) as u32;
        most.into_values()
            .flat_map(|(most, flows)| flows.into_iter().map(move |flow| (flow, bound(most))))
            .collect()
    }

    /// Whether a flow is not known yet.
    pub(crate) fn is_new(&self, id: u32) -> bool {
        self.flows.get(&id).is_none_or(Flow::is_new)
    }

    /// Takes note of who waits now. Who did not wait before is lifted: one that is not known yet to the virtual time of
    /// its band, so that nobody gains by a new name; any other to what that was a burst ago, so that nobody saves up more
    /// by staying away. A band where nobody waited had enough for all, so there all start level.
    pub(crate) fn arrive(&mut self, waiting: &[Waiting], now_ms: u64) {
        self.open_bands(waiting, now_ms);
        let before = std::mem::take(&mut self.waiting);
        for one in waiting {
            let Some(band) = self.bands.get(&one.band) else { continue };
            let (now, a_burst_ago) = (band.time.now(), band.time.before());
            self.joins(one.id, one.band, now_ms);
            let flow = self.flow(one.id, now_ms);
            flow.weight = f64::from(one.weight).max(f64::MIN_POSITIVE);
            if !before.contains(&one.id) {
                flow.served = flow.served.max(if flow.is_new() { now } else { a_burst_ago });
            }
            // Who has had less than the others only catches up.
            let had_enough = flow.served >= f64::midpoint(a_burst_ago, now);
            self.has_backlog(one.id, one.is_old && had_enough);
        }
        self.waiting.extend(waiting.iter().map(|flow| flow.id));
        for id in before.into_iter().filter(|id| !self.waiting.contains(id)).collect::<Vec<_>>() {
            self.has_backlog(id, false);
        }
        self.sweep(now_ms);
    }

    fn open_bands(&mut self, waiting: &[Waiting], now_ms: u64) {
        let mut weights: HashMap<i32, (f64, bool)> = HashMap::new();
        for one in waiting {
            let (known, any_new) = weights.entry(one.band).or_default();
            if self.is_new(one.id) {
                *any_new = true;
            } else {
                *known += f64::from(one.weight).max(0.0);
            }
        }
        let (most, share) = (self.most, self.new_share);
        for (band, (known, any_new)) in weights {
            let band = self.band(band, now_ms);
            band.waits(most, now_ms);
            band.newcomers.wait(any_new, band.time.now(), known, share);
        }
    }

    fn band(&mut self, band: i32, now_ms: u64) -> &mut Band {
        if self.bands.len() > MOST_BANDS && now_ms.saturating_sub(self.bands_swept_ms) >= SWEEP_BANDS_MS {
            self.bands_swept_ms = now_ms;
            self.bands.retain(|_, band| !band.is_quiet(now_ms));
        }
        let most = self.most;
        self.bands.entry(band).or_insert_with(|| Band::new(most))
    }

    /// A flow belongs to this band from now on.
    fn joins(&mut self, id: u32, band: i32, now_ms: u64) {
        self.flow(id, now_ms).band = Some(band);
        self.band(band, now_ms).heard(id, now_ms);
    }

    fn has_backlog(&mut self, id: u32, backlog: bool) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.backlog != backlog) else { return };
        flow.backlog = backlog;
        // What went before does not count any more, whatever becomes of the backlog.
        let light = std::mem::take(&mut flow.light);
        if let Some(band) = flow.band.and_then(|band| self.bands.get_mut(&band)).filter(|_| backlog) {
            band.light.without(&light);
        }
    }

    fn flow(&mut self, id: u32, now_ms: u64) -> &mut Flow {
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&id) {
            self.forget_half();
        }
        let flow = self.flows.entry(id).or_insert_with(|| Flow::new(now_ms));
        flow.seen_ms = now_ms;
        flow
    }

    fn forget_half(&mut self) {
        let mut seen: Vec<u64> = self.flows.values().map(|flow| flow.seen_ms).collect();
        let middle = seen.len() / 2;
        let median = *seen.select_nth_unstable(middle).1;
        let mut room = middle;
        self.flows.retain(|_, flow| {
            let keep = flow.seen_ms >= median && room > 0;
            room -= usize::from(keep);
            keep
        });
    }

    fn sweep(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.swept_ms) < FORGET_AFTER_MS / 10 {
            return;
        }
        self.swept_ms = now_ms;
        // What is under way ends in the end, unless nobody says so.
        let after = |flow: &Flow| if flow.running > 0 { 6 * FORGET_AFTER_MS } else { FORGET_AFTER_MS };
        self.flows.retain(|_, flow| now_ms.saturating_sub(flow.seen_ms) < after(flow));
    }
}

#[cfg(test)]
mod tests;
