//! Language models, behind providers that speak their wire formats.
//!
//! [`Models`] finds the provider of a model by name, asks it, and says what the answer cost. It knows
//! no policy and keeps no record.

mod anthropic;
mod assembly;
mod error;
mod events;
mod openai;
mod prices;
mod provider;
mod question;
mod recorded;
mod refusal;
mod remote;
mod retry;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::call::{ModelRequest, ModelResponse};
use crate::clock::Clock;
use crate::config::{Config, ModelKey};

pub use error::ModelError;
pub use provider::{ModelProvider, ModelStream};
pub use recorded::{parse_answer, parse_stream};

use remote::Remote;

/// Which model, and who serves it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelName {
    /// Who serves it.
    pub provider: String,
    /// The model, as that provider spells it.
    pub model: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// All providers that there are. Cheap to clone.
#[derive(Clone, Default)]
pub struct Models {
    providers: Arc<BTreeMap<String, Arc<dyn ModelProvider>>>,
    aliases: Arc<BTreeMap<String, ModelName>>,
    /// What stands for every other name, and who answers for every other provider.
    stand_in: Option<(ModelName, Arc<dyn ModelProvider>)>,
}

impl Models {
    /// No provider at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// The providers and aliases of a configuration. Nothing is connected to before the first question.
    ///
    /// `keys` are those of [`Config::read_model_keys`], by the name of the provider; whoever has them keeps
    /// them out of ledgers, which `Store::redact` does. `ca_certificates` are those of
    /// [`Config::read_ca_file`], which are trusted beside those of the system.
    pub fn from_config(
        config: &Config,
        keys: &BTreeMap<String, ModelKey>,
        ca_certificates: Vec<Vec<u8>>,
        clock: &Clock,
    ) -> Self {
        let ca_certificates: Arc<[Vec<u8>]> = ca_certificates.into();
        let mut models = Self::new();
        for (name, settings) in &config.model_providers {
            let key = keys.get(name).cloned();
            let certificates = Arc::clone(&ca_certificates);
            let remote = Remote::new(name, settings, key, certificates, clock.clone());
            models = models.with_provider(name, Arc::new(remote));
        }
        for (alias, model) in &config.model_aliases {
            let name = ModelName {
                provider: model.provider.clone(),
                model: model.model.clone(),
            };
            models = models.with_alias(alias, name);
        }
        models
    }

    /// Adds a provider under the name that stands before the `/` of `llm:provider/model`. One of that
    /// name that was there is replaced.
    #[must_use]
    pub fn with_provider(mut self, name: &str, provider: Arc<dyn ModelProvider>) -> Self {
        Arc::make_mut(&mut self.providers).insert(name.to_owned(), provider);
        self
    }

    /// Adds a name of the operator's for a model.
    #[must_use]
    pub fn with_alias(mut self, alias: &str, model: ModelName) -> Self {
        Arc::make_mut(&mut self.aliases).insert(alias.to_owned(), model);
        self
    }

    /// Lets one provider answer for every model whose provider is not there. A name that is no alias and
    /// has no provider in it stands for `model`. It is meant for tests, in which no model is asked.
    #[must_use]
    pub fn with_stand_in(mut self, model: ModelName, provider: Arc<dyn ModelProvider>) -> Self {
        self.stand_in = Some((model, provider));
        self
    }

    /// The model that a guest means: an alias, or `provider/model`. Whether there is such a model only
    /// its provider knows.
    pub fn resolve(&self, asked: &str) -> Option<ModelName> {
        if let Some(name) = self.aliases.get(asked) {
            return Some(name.clone());
        }
        match asked.split_once('/') {
            Some((provider, model)) => Some(ModelName {
                provider: provider.to_owned(),
                model: model.to_owned(),
            }),
            None => self.stand_in.as_ref().map(|(model, _)| model.clone()),
        }
    }

    /// Asks a model and waits for the whole answer. `request.model` is set here.
    ///
    /// # Errors
    /// There is no such provider, or there is no answer.
    pub async fn generate(
        &self,
        name: &ModelName,
        mut request: ModelRequest,
    ) -> Result<ModelResponse, ModelError> {
        request.model.clone_from(&name.model);
        self.provider(name)?.generate(&request).await
    }

    /// Asks a model and gives its answer as it comes.
    ///
    /// # Errors
    /// There is no such provider, or no answer begins.
    pub async fn start(
        &self,
        name: &ModelName,
        mut request: ModelRequest,
    ) -> Result<Box<dyn ModelStream>, ModelError> {
        request.model.clone_from(&name.model);
        self.provider(name)?.start(&request).await
    }

    fn provider(&self, name: &ModelName) -> Result<&Arc<dyn ModelProvider>, ModelError> {
        let stand_in = || self.stand_in.as_ref().map(|(_, provider)| provider);
        let provider = self.providers.get(&name.provider).or_else(stand_in);
        provider.ok_or_else(|| ModelError::NotFound(name.to_string()))
    }
}
