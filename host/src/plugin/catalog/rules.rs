//! What the configuration says of plugins: which are loaded, with what settings, into which chains.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::builtin;
use super::super::load::LoadError;
use super::files::Place;
use crate::config::{
    Beside, ChainConfig, Config, DEFAULT, Mode, PluginConfig, SupplyConfig, TrialMode, Unlisted,
};

/// The part of the configuration that concerns plugins.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) directory: Option<PathBuf>,
    pub(super) supply: SupplyConfig,
    unlisted: Unlisted,
    configs: Vec<PluginConfig>,
    chains: Vec<ChainConfig>,
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// It is loaded to be in force.
    Serve,
    /// It is loaded to be tried.
    Try(TrialMode),
    /// It is not loaded.
    Ignore,
    /// Nothing names it, and such files are not loaded.
    Unlisted,
}

impl Rules {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            directory: config.plugins_dir.clone(),
            supply: config.supply.clone(),
            unlisted: config.unlisted,
            configs: config.plugins.clone(),
            chains: config.chains.clone(),
        }
    }

    /// Whether the plugin may serve at all.
    pub(super) fn allows(&self, name: &str) -> bool {
        self.named(name).is_none_or(|config| config.mode != Mode::Off)
    }

    /// The mode that the configuration gives a plugin.
    pub(super) fn mode(&self, name: &str) -> Mode {
        match self.named(name).map(|config| &config.mode) {
            None => Mode::Active,
            // How its candidate is tried says nothing of the plugin itself.
            Some(Mode::Trial(trial)) if *trial != TrialMode::Shadow => Mode::Active,
            Some(mode) => mode.clone(),
        }
    }

    /// What becomes of a plugin's file with these settings beside it.
    pub(super) fn fate(&self, name: &str, place: Place, beside: &Beside) -> Fate {
        let (plugin, candidate) = (self.named(name), self.named(&Place::Next.stem(name)));
        let unlisted = plugin.is_none() && (place == Place::Main || candidate.is_none());
        match (self.unlisted, place) {
            (Unlisted::Refuse, _) if unlisted => return Fate::Unlisted,
            (Unlisted::Shadow, _) if unlisted => return Fate::Try(TrialMode::Shadow),
            (_, Place::Main) => {
                return match plugin.map(|config| &config.mode) {
                    Some(Mode::Trial(TrialMode::Shadow)) => Fate::Try(TrialMode::Shadow),
                    _ => Fate::Serve,
                };
            }
            (_, Place::Next) => {}
        }
        let said = match (candidate, plugin.map(|config| &config.mode)) {
            (Some(candidate), _) => Some(candidate.mode.clone()),
            (None, _) if beside.mode.is_some() => beside.mode.clone(),
            (None, Some(Mode::Trial(trial))) => Some(Mode::Trial(trial.clone())),
            (None, _) => None,
        };
        match said {
            Some(Mode::Off) => Fate::Ignore,
            Some(Mode::Trial(trial)) => Fate::Try(trial),
            None | Some(Mode::Active) => Fate::Try(TrialMode::Shadow),
        }
    }

    /// The settings of a candidate: its own `[[plugin]]`, else what lies beside it.
    pub(super) fn candidate_settings(&self, name: &str, beside: Beside) -> Beside {
        match self.named(&Place::Next.stem(name)) {
            None => beside,
            Some(config) => {
                let json = config.config.as_object().filter(|values| !values.is_empty());
                Beside { weight: config.weight, config: json.map(|_| config.config.clone()), mode: None }
            }
        }
    }

    /// A plugin with its configuration and no chain in view.
    pub(super) fn config(&self, name: &str, settings: &Settings) -> PluginConfig {
        let mut config = self.named(name).cloned().unwrap_or_else(|| PluginConfig::named(name));
        if settings.tried || self.named(name).is_none() {
            config.weight = settings.beside.weight.or(config.weight);
            if let Some(json) = &settings.beside.config {
                config.config = json.clone();
            }
        }
        config
    }

    /// The chains that use a plugin, with its configuration in each.
    pub(super) fn uses(&self, name: &str, settings: &Settings) -> Vec<(Box<str>, PluginConfig)> {
        let config = self.config(name, settings);
        if self.chains.is_empty() {
            return vec![(DEFAULT.into(), config)];
        }
        let in_chain = |chain: &ChainConfig| {
            let used = chain.plugins.iter().find(|used| *used.plugin == *name)?;
            let mut config = config.clone();
            // What was tried with settings of its own is used with them.
            if !(settings.tried && settings.beside.weight.is_some()) {
                config.weight = used.weight.or(config.weight);
            }
            if let Some(json) =
                used.config.as_ref().filter(|_| !settings.tried || settings.beside.config.is_none())
            {
                config.config = json.clone();
            }
            Some((chain.name.clone(), config))
        };
        self.chains.iter().filter_map(in_chain).collect()
    }

    /// Every chain with the names of its plugins, in the order in which they are asked. Without configured
    /// chains it is one of all that are `known`, the built-ins first.
    pub(super) fn chains<'a>(&'a self, known: impl Iterator<Item = &'a str>) -> Vec<(&'a str, Vec<&'a str>)> {
        if self.chains.is_empty() {
            let others = known.filter(|name| !builtin::NAMES.contains(name));
            return vec![(DEFAULT, builtin::NAMES.into_iter().chain(others).collect())];
        }
        let names = |chain: &'a ChainConfig| chain.plugins.iter().map(|used| &*used.plugin).collect();
        self.chains.iter().map(|chain| (&*chain.name, names(chain))).collect()
    }

    /// Plugins that the configuration counts on.
    pub(super) fn wanted(&self) -> BTreeSet<&str> {
        let plugins = self.configs.iter().filter(|config| !config.name.ends_with(".next"));
        let named = plugins
            .filter(|config| matches!(self.mode(&config.name), Mode::Active))
            .map(|config| &*config.name);
        let used = self.chains.iter().flat_map(|chain| &chain.plugins).map(|used| &*used.plugin);
        named.chain(used).filter(|name| self.allows(name)).collect()
    }

    /// An error with its chain, where there is more than the one that is implied.
    pub(super) fn in_chain(&self, chain: &str, error: LoadError) -> LoadError {
        if self.chains.is_empty() {
            return error;
        }
        LoadError::InChain { chain: chain.into(), error: Box::new(error) }
    }

    fn named(&self, name: &str) -> Option<&PluginConfig> {
        self.configs.iter().find(|config| *config.name == *name)
    }
}

/// What a version was told by the files beside it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Settings {
    pub(super) beside: Beside,
    /// It was or is a candidate: its settings then go before those of the plugin that it replaces.
    pub(super) tried: bool,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::from_text;

    fn rules(text: &str) -> Rules {
        Rules::new(&from_text("f.toml", text, Path::new("")).unwrap())
    }

    fn beside(mode: Option<Mode>) -> Beside {
        Beside { weight: Some(3.0), config: Some(serde_json::json!({"a": 2})), mode }
    }

    #[test]
    fn files_that_nothing_names_are_used_tried_or_refused() {
        for (unlisted, main, next) in [
            ("active", Fate::Serve, Fate::Try(TrialMode::Canary(5.0))),
            ("shadow", Fate::Try(TrialMode::Shadow), Fate::Try(TrialMode::Shadow)),
            ("refuse", Fate::Unlisted, Fate::Unlisted),
        ] {
            let rules = rules(&format!("[plugins]\nunlisted = \"{unlisted}\"\n"));
            let beside = beside(Some(Mode::Trial(TrialMode::Canary(5.0))));
            assert_eq!(rules.fate("x", Place::Main, &beside), main);
            assert_eq!(rules.fate("x", Place::Next, &beside), next);
        }
    }

    #[test]
    fn a_candidate_is_in_shadow_unless_it_is_told_otherwise() {
        let plain = rules("[[plugin]]\nname = \"x\"\n");
        assert_eq!(plain.fate("x", Place::Next, &Beside::default()), Fate::Try(TrialMode::Shadow));
        assert_eq!(plain.fate("x", Place::Next, &beside(Some(Mode::Off))), Fate::Ignore);
        let of_plugin = rules("[[plugin]]\nname = \"x\"\nmode = { canary = 10 }\n");
        assert_eq!(of_plugin.fate("x", Place::Next, &Beside::default()), Fate::Try(TrialMode::Canary(10.0)));
        assert_eq!(of_plugin.fate("x", Place::Main, &Beside::default()), Fate::Serve);
        assert_eq!(of_plugin.mode("x"), Mode::Active);
        let own = rules("[[plugin]]\nname = \"x.next\"\nmode = { endpoints = 2 }\n");
        assert_eq!(own.fate("x", Place::Next, &beside(Some(Mode::Off))), Fate::Try(TrialMode::Endpoints(2)));
    }

    #[test]
    fn a_file_that_is_configured_to_shadow_does_not_serve() {
        let rules = rules("[[plugin]]\nname = \"x\"\nmode = \"shadow\"\n");
        assert_eq!(rules.fate("x", Place::Main, &Beside::default()), Fate::Try(TrialMode::Shadow));
        assert!(rules.wanted().is_empty());
    }

    #[test]
    fn what_lies_beside_a_named_plugin_counts_for_a_candidate_only() {
        let rules = rules("[[plugin]]\nname = \"x\"\nweight = 1.5\nconfig = { a = 1 }\ngrant = [\"body\"]\n");
        let served = rules.config("x", &Settings { beside: beside(None), tried: false });
        assert_eq!((served.weight, &served.config["a"]), (Some(1.5), &serde_json::json!(1)));
        let tried = rules.config("x", &Settings { beside: beside(None), tried: true });
        assert_eq!((tried.weight, &tried.config["a"]), (Some(3.0), &serde_json::json!(2)));
        assert!(tried.grant.body, "a candidate may read what the plugin may");
    }

    #[test]
    fn a_chain_has_the_last_word_but_over_what_is_tried() {
        let rules =
            rules("[[chain]]\nname = \"c\"\nplugins = [{ use = \"x\", weight = 2.0, config = { a = 9 } }]\n");
        let settings = |tried| Settings { beside: beside(None), tried };
        let [(_, served)] = &rules.uses("x", &settings(false))[..] else { panic!() };
        assert_eq!((served.weight, &served.config["a"]), (Some(2.0), &serde_json::json!(9)));
        let [(_, tried)] = &rules.uses("x", &settings(true))[..] else { panic!() };
        assert_eq!((tried.weight, &tried.config["a"]), (Some(3.0), &serde_json::json!(2)));
        assert!(rules.uses("y", &settings(true)).is_empty());
    }
}
