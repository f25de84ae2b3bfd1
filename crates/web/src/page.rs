//! The page: one document with its style and its script inside, so that it needs nothing else and its policy can forbid everything else.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use nostray_sys::process::random_numbers;

const DOCUMENT: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
/// In the order in which they use each other.
const SCRIPTS: [&str; 8] = [
    include_str!("page/words.js"),
    include_str!("page/state.js"),
    include_str!("page/list.js"),
    include_str!("page/tree.js"),
    include_str!("page/plot.js"),
    include_str!("page/journal.js"),
    include_str!("page/details.js"),
    include_str!("page/app.js"),
];
/// Stands in the document where each answer has a random number of its own.
const NONCE: &str = "NONCE";

/// The document, with its style and its script.
#[derive(Debug, Clone)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn new() -> Self {
        Self(DOCUMENT.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", &SCRIPTS.concat()))
    }

    /// Only the script and the style of this answer run; all other sources, forms and frames are forbidden.
    pub(crate) fn answer(&self) -> Response {
        let mut random = random_numbers();
        let nonce = format!("{:016x}{:016x}", random(), random());
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        let headers = [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)];
        (headers, self.0.replace(NONCE, &nonce)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_one_style_and_nothing_from_elsewhere() {
        let Page(text) = Page::new();
        assert_eq!(text.matches(NONCE).count(), 2);
        for (tag, times) in [("<script", 1), ("</script", 1), ("<style", 1), ("</style", 1)] {
            assert_eq!(text.matches(tag).count(), times, "{tag}");
        }
        for outside in [
            "src=\"http",
            "href=\"http",
            "url(http",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
        ] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(!text.contains("/*STYLE*/") && !text.contains("/*SCRIPT*/"));
    }
}
