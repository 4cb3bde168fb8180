//! The inspector page: a page for browsers that shows runs and answers what they ask, by the routes that every client has.
//!
//! It is static and says nothing of this daemon, so that it needs no token; whatever it shows it asks for with the
//! token that a person gives it. Its scripts are served as they stand in `src/api/page/`, without a build step, and
//! nothing but this origin is asked for anything.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Api;
use super::problem::{Problem, ProblemCode};
use crate::ledger::Digest;

/// What the page may load and whom it may ask: its own origin. Nothing in a document is run or used as a style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A page of another site that holds a window of this one learns nothing of it.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Where the files are that the page consists of.
const FILES_ROUTE: &str = "/page/";
/// The file that `/` is.
const INDEX: &str = "index.html";

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        /// The files of the page by their path below `src/api/page/`.
        const FILES: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("page/", $name)))),+];
    };
}

files![
    "app.css",
    "index.html",
    "js/answer.js",
    "js/answers.js",
    "js/api.js",
    "js/busy.js",
    "js/chart.js",
    "js/chat.js",
    "js/child_runs.js",
    "js/clock.js",
    "js/decision.js",
    "js/dom.js",
    "js/format.js",
    "js/hub.js",
    "js/launch_form.js",
    "js/launch_pad.js",
    "js/main.js",
    "js/metrics.js",
    "js/notice.js",
    "js/pending.js",
    "js/permission.js",
    "js/prompt_box.js",
    "js/record.js",
    "js/run_actions.js",
    "js/rows.js",
    "js/run_filters.js",
    "js/run_list.js",
    "js/schema_bounds.js",
    "js/schema_form.js",
    "js/schema_json.js",
    "js/sides.js",
    "js/stream.js",
    "js/timeline.js",
    "js/token.js",
    "js/tray.js",
    "js/transcript.js",
    "js/value.js",
    "js/waterfall.js",
    "js/views/approvals.js",
    "js/views/executions.js",
    "js/views/health.js",
    "js/views/run.js",
    "js/views/runs.js",
    "js/views/skills.js",
    "views.css",
];

/// One file, ready to be sent.
struct PageFile {
    name: &'static str,
    bytes: &'static [u8],
    etag: HeaderValue,
}

static PAGE: LazyLock<Vec<PageFile>> = LazyLock::new(|| {
    let each = FILES.iter().filter_map(|&(name, bytes)| {
        let etag = format!("\"{}\"", Digest::of(bytes));
        let etag = HeaderValue::from_str(&etag).ok()?;
        Some(PageFile { name, bytes, etag })
    });
    each.collect()
});

/// Whether the path is one of the page, which needs no token.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/"
        || path
            .strip_prefix(FILES_ROUTE)
            .is_some_and(|name| FILES.iter().any(|&(known, _)| known == name))
}

/// The routes are in no document: they are for browsers, and what they answer is no interface.
pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/", get(async |headers: HeaderMap| answer(INDEX, &headers)))
        .route(
            "/page/{*name}",
            get(async |Path(name): Path<String>, headers: HeaderMap| answer(&name, &headers)),
        )
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = PAGE.iter().find(|file| file.name == name) else {
        let detail = "the page has no such file";
        return Problem::new(ProblemCode::NotFound, detail).into_response();
    };
    let known = headers.get_all(IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim() == file.etag);
    let fields = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static(media_type(file.name)),
        ),
        // A daemon of another version has other files at the same paths.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (ETAG, file.etag.clone()),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (OPENER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, fields).into_response(),
        false => (fields, file.bytes).into_response(),
    }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn names_below(folder: &Path, base: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names_below(&path, base, names);
            } else {
                let name = path.strip_prefix(base).unwrap();
                names.insert(name.to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_its_type_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/page");
        let mut there = BTreeSet::new();
        names_below(&folder, &folder, &mut there);
        let served = FILES.iter().map(|&(name, _)| name.to_owned()).collect();
        assert_eq!(there, served);
        for (name, _) in FILES {
            assert_ne!(media_type(name), "application/octet-stream", "{name}");
            assert!(is_page(&format!("/page/{name}")));
        }
        for path in [
            "",
            "/page",
            "/page/",
            "/page/none.js",
            "/api/agent/runs",
            "/page/../api",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }

    #[test]
    fn nothing_in_the_page_makes_markup_or_code_of_a_text() {
        let forbidden = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "createContextualFragment",
            "setHTML",
            "eval(",
            "new Function",
            "javascript:",
            "style=",
            "://",
        ];
        for (name, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            // The name of a namespace is no address.
            let text = text.replace("'http://www.w3.org/2000/svg'", "");
            for word in forbidden {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
    }
}
