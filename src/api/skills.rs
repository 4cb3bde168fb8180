//! Which skills there are, and what each is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::dto::skill::{
    DescribeFailure, Descriptor, Finding, RefusedSkill, SkillDetail, SkillPolicy, SkillSummary,
    Skills, limits,
};
use super::extract::Path;
use super::problem::{Problem, ProblemCode, ProblemDocument};
use crate::capability::Policy;
use crate::registry::{Registry, Skill};
use crate::runner::{ExecutorError, RunProfile, Terms};
use crate::telemetry::chain;

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_skills))
        .routes(routes!(get_skill))
}

/// Shows which skills there are.
///
/// Skills whose manifest has `expose.api = false` are left out, and cannot be started here.
#[utoipa::path(
    get,
    path = "/api/skills",
    operation_id = "list_skills",
    tag = "skills",
    responses((status = 200, description = "The skills, and those that were refused", body = Skills))
)]
async fn list_skills(State(api): State<Api>) -> Json<Skills> {
    let registry = api.host().skills().current();
    let enabled = registry.skills().map(|skill| (skill, true));
    let disabled = registry.disabled().map(|skill| (skill, false));
    let shown = enabled
        .chain(disabled)
        .filter(|(skill, _)| is_exposed(skill));
    let mut skills: Vec<SkillSummary> = shown
        .map(|(skill, enabled)| SkillSummary::of(skill, enabled))
        .collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    let refused = registry
        .refused()
        .iter()
        .filter_map(RefusedSkill::of)
        .collect();
    Json(Skills { skills, refused })
}

/// Shows a skill closely: its schemas, what it may do, and what it is held to.
///
/// The skill is asked what it is, in its sandbox. The answer is kept as long as its component is the same.
#[utoipa::path(
    get,
    path = "/api/skills/{name}",
    operation_id = "get_skill",
    tag = "skills",
    params(("name" = String, Path, description = "The skill", min_length = 1, max_length = 64)),
    responses(
        (status = 200, description = "The skill", body = SkillDetail),
        (status = 404, description = "There is no such skill", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "It was refused when it was read", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn get_skill(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<SkillDetail>, Problem> {
    let registry = api.host().skills().current();
    let (skill, enabled) = find(&registry, &name)?;
    let profile = match enabled {
        true => profile(&api, &skill)?,
        false => RunProfile {
            policy: Arc::new(Policy::new(skill.manifest.capabilities.clone(), Vec::new())),
            ..RunProfile::default()
        },
    };
    let (descriptor, failure) = match skill.component {
        Some(_) if enabled => describe(&api, &skill).await,
        _ => (None, None),
    };
    Ok(Json(SkillDetail {
        license: skill.license.clone(),
        compatibility: skill.compatibility.clone(),
        descriptor,
        failure,
        policy: SkillPolicy::from(&*profile.policy),
        limits: limits(&profile.limits),
        warnings: skill
            .warnings
            .iter()
            .map(|warning| Finding::of(warning, &skill.folder))
            .collect(),
        skill: SkillSummary::of(&skill, enabled),
    }))
}

/// Whether a skill is there for this surface.
fn is_exposed(skill: &Skill) -> bool {
    skill.manifest.expose.api
}

/// Whether there is something of that name to run for this surface. One that is not for it is as good as absent.
pub(super) fn check_runnable(api: &Api, name: &str) -> Result<(), Problem> {
    let (bare, _operation) = name.split_once('.').unwrap_or((name, ""));
    let registry = api.host().skills().current();
    let installed = registry.get(bare).or_else(|| registry.get_disabled(bare));
    if installed.is_some_and(|skill| !is_exposed(&skill)) {
        let (name, nearest) = (bare.to_owned(), None);
        return Err(ExecutorError::NotFound { name, nearest }.into());
    }
    Ok(api.host().runner().executor().check(name)?)
}

fn find(registry: &Registry, name: &str) -> Result<(Arc<Skill>, bool), Problem> {
    let enabled = registry.get(name).map(|skill| (skill, true));
    let found = enabled.or_else(|| registry.get_disabled(name).map(|skill| (skill, false)));
    if let Some(found) = found.filter(|(skill, _)| is_exposed(skill)) {
        return Ok(found);
    }
    if registry.refusal(name).is_some() {
        let detail = format!("skill {name:?} was refused when it was read");
        let hint = "GET /api/skills says under `refused` what is wrong with it";
        return Err(Problem::new(ProblemCode::NotRunnable, detail).with_hint(hint));
    }
    let problem = Problem::new(
        ProblemCode::NotFound,
        format!("there is no skill {:?}", shortened(name)),
    );
    let nearest = registry.nearest(name).filter(|nearest| {
        let skill = registry.get(nearest.as_str());
        skill.is_some_and(|skill| is_exposed(&skill))
    });
    Err(match nearest {
        Some(nearest) => problem.with_hint(format!("there is a skill {:?}", nearest.as_str())),
        None => problem,
    })
}

/// What a problem repeats of a name that is none.
fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

fn profile(api: &Api, skill: &Skill) -> Result<RunProfile, Problem> {
    let executor = api.host().runner().executor();
    let profile = executor.profile(skill.name.as_str(), &Terms::default());
    profile.map_err(|error| Problem::internal(&error))
}

/// What the skill says of itself, or why it does not.
async fn describe(api: &Api, skill: &Skill) -> (Option<Descriptor>, Option<DescribeFailure>) {
    let executor = api.host().runner().executor();
    let error = match api.host().descriptions().of(&*executor, skill).await {
        Ok(said) => return (Some(Descriptor::of(&said, &skill.manifest)), None),
        Err(error) => error,
    };
    let detail = match &error {
        // The reason may name files of the machine.
        ExecutorError::Load { .. } => {
            tracing::warn!(skill = %skill.name, error = chain(&error), "cannot describe a skill");
            "the component cannot be loaded: the log of the host says why".to_owned()
        }
        error => error.to_string(),
    };
    let code = error.code();
    (None, Some(DescribeFailure { code, detail }))
}
