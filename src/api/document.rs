//! The OpenAPI document: what holds for every route is added to what each says of itself.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder, SecurityRequirement,
    Server,
};

use super::problem::PROBLEM_JSON;

/// The name of the security scheme.
const BEARER: &str = "bearer";

/// A response that is added to routes: its status, its name among the components, and when it is given.
type Added = (&'static str, &'static str, &'static str);

/// What any route may answer.
const ANYWHERE: [Added; 4] = [
    (
        "403",
        "Forbidden",
        "The host or the origin of the request is not allowed, or the caller may not do this",
    ),
    ("408", "Timeout", "The request took too long"),
    (
        "500",
        "Failed",
        "The host failed; its log has the reason under the id of the request",
    ),
    (
        "503",
        "Unavailable",
        "Nothing can be recorded now, or the process is shutting down",
    ),
];
/// What a route may answer that asks for a token.
const WITH_TOKEN: Added = (
    "401",
    "Unauthorized",
    "A token is configured, and the request has none or another one",
);
/// What a route may answer that takes parameters.
const WITH_PARAMETERS: Added = (
    "400",
    "BadRequest",
    "A parameter or the body cannot be used",
);
/// What a route may answer that takes a body.
const WITH_BODY: [Added; 3] = [
    WITH_PARAMETERS,
    (
        "413",
        "TooLarge",
        "The body has more bytes than serve.body_bytes_max",
    ),
    ("415", "UnsupportedMediaType", "The body is not JSON"),
];

/// Adds what holds for every route.
pub(crate) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "The token of serve.token_file or serve.token_env; none is needed where none is configured",
        ))
        .build();
    components.add_security_scheme(BEARER, SecurityScheme::Http(scheme));
    let all = ANYWHERE.iter().chain(&WITH_BODY).chain([&WITH_TOKEN]);
    for (_, name, description) in all {
        components
            .responses
            .insert((*name).to_owned(), problem(description).into());
    }
    let anything: [&str; 0] = [];
    // Wherever the document was fetched from.
    document.servers = Some(vec![Server::new("/")]);
    document.security = Some(vec![SecurityRequirement::new(BEARER, anything)]);
    for path in document.paths.paths.values_mut() {
        for operation in operations(path) {
            complete_operation(operation);
        }
    }
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [
        path.get.as_mut(),
        path.post.as_mut(),
        path.put.as_mut(),
        path.patch.as_mut(),
        path.delete.as_mut(),
    ];
    all.into_iter().flatten()
}

fn complete_operation(operation: &mut Operation) {
    let mut add = |(status, name, _): &Added| {
        let responses = &mut operation.responses.responses;
        responses
            .entry((*status).to_owned())
            .or_insert_with(|| RefOr::Ref(Ref::from_response_name(*name)));
    };
    ANYWHERE.iter().for_each(&mut add);
    // One that needs no token says so itself.
    if operation.security.is_none() {
        add(&WITH_TOKEN);
    }
    if operation.parameters.is_some() {
        add(&WITH_PARAMETERS);
    }
    if operation.request_body.is_some() {
        WITH_BODY.iter().for_each(&mut add);
    }
}

fn problem(description: &str) -> Response {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    ResponseBuilder::new()
        .description(description)
        .content(PROBLEM_JSON, content)
        .build()
}
