//! Decides which request is served. A browser sends requests on behalf of any page that its user opens, so each check answers one way in:
//!
//! - the name in `Host`: a foreign name that leads to our address (DNS rebinding);
//! - `Origin` and `Sec-Fetch-Site`: a page of another origin, also one of another port of this machine, which a cookie does not tell apart;
//! - the token: every other program and every other user of the machine.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::token::Token;

/// What is served without a script of ours, which sets a policy with its own nonce.
const NOTHING_AT_ALL: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The one place of which the address may have the token, beside `/`: Prometheus cannot always send a header.
pub(crate) const METRICS: &str = "/metrics";

/// What a request must have.
#[derive(Debug)]
pub(crate) struct Gate {
    /// `127.0.0.1:7575`, `localhost:7575`.
    hosts: Vec<String>,
    token: Token,
    /// With the port in it: browsers send a cookie to all ports of a host, and each `nostray web` needs its own.
    cookie: String,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Served,
    /// The address has the token: it is put into a cookie, and the browser goes to the address without it, which stays in the history.
    Enters,
    Refused(&'static str),
}

impl Gate {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Self {
        let port = address.port();
        let hosts = vec![address.to_string(), format!("localhost:{port}")];
        Self { hosts, token, cookie: format!("nostray-{port}") }
    }

    /// Where the user begins.
    pub(crate) fn address(&self) -> String {
        let host = self.hosts.first().map_or("", String::as_str);
        format!("http://{host}/?token={}", self.token.as_str())
    }

    fn verdict(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        if !self.is_for_us(uri, headers) {
            return Verdict::Refused("this address is not the one that `nostray web` listens on");
        }
        if !self.is_from_us(method, uri, headers) {
            return Verdict::Refused("a page of another origin has asked");
        }
        match token_in(uri) {
            Some(told) if uri.path() == "/" && method == Method::GET => match self.token.is(told) {
                true => Verdict::Enters,
                false => Verdict::Refused("the token is wrong: open the address that `nostray web` has printed"),
            },
            Some(told) if uri.path() == METRICS && self.token.is(told) => Verdict::Served,
            _ if self.has_token(headers) => Verdict::Served,
            _ => Verdict::Refused(
                "the token is missing or wrong: open the address that `nostray web` has printed, or send the token as `Authorization: Bearer`",
            ),
        }
    }

    /// Whether the client knows us by a name of ours.
    fn is_for_us(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_ours = |name: &str| self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
        // A proxy's form of a request has a second name.
        only(headers, HOST).is_some_and(is_ours) && uri.authority().is_none_or(|name| is_ours(name.as_str()))
    }

    /// Whether no page of another origin has made this request.
    fn is_from_us(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_ours = |origin: &str| {
            let name = origin.strip_prefix("http://");
            name.is_some_and(|name| self.hosts.iter().any(|host| host == name))
        };
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        match (headers.get(ORIGIN), only(headers, ORIGIN)) {
            (None, _) if changes => return false,
            (None, _) => {}
            (Some(_), Some(origin)) if is_ours(origin) => {}
            _ => return false,
        }
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        match site {
            None | Some(b"same-origin" | b"none") => true,
            // A link on another page may lead here: the address has the token, or the request is refused for want of a cookie.
            _ => {
                let destination = headers.get("sec-fetch-dest").map(HeaderValue::as_bytes);
                !changes && uri.path() == "/" && destination == Some(b"document")
            }
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(AUTHORIZATION) {
            let told = only(headers, AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
            return told.is_some_and(|told| self.token.is(told));
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// Puts the token into a cookie that no script can read and that no other site's request carries.
    fn enter(&self) -> Response {
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token.as_str());
        (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response()
    }
}

/// The value of a header that is there exactly once: of two, a proxy might have seen the other.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// A token has only characters that an address does not escape.
fn token_in(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Stands before every route.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let verdict = gate.verdict(request.method(), request.uri(), request.headers());
    let mut response = match verdict {
        Verdict::Served => next.run(request).await,
        Verdict::Enters => gate.enter(),
        Verdict::Refused(why) => refused(why),
    };
    seal(response.headers_mut());
    response
}

fn refused(why: &str) -> Response {
    let mut response = Response::new(Body::from(format!("403: {why}\n")));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// What every answer says to the browser, whatever it is.
fn seal(headers: &mut HeaderMap) {
    let always = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = axum::http::header::CONTENT_SECURITY_POLICY;
    headers.entry(policy).or_insert(HeaderValue::from_static(NOTHING_AT_ALL));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Asked {
        gate: Gate,
        method: Method,
        uri: &'static str,
        headers: Vec<(&'static str, String)>,
    }

    /// A request that is served, to be changed by one thing.
    fn asked(uri: &'static str) -> Asked {
        let gate = Gate::new("127.0.0.1:7575".parse().expect("an address"), Token::new());
        let bearer = format!("Bearer {}", gate.token.as_str());
        let headers = vec![("host", "127.0.0.1:7575".to_owned()), ("authorization", bearer)];
        Asked { gate, method: Method::GET, uri, headers }
    }

    impl Asked {
        fn with(mut self, name: &'static str, value: &str) -> Self {
            self.headers.retain(|(known, _)| *known != name);
            self.and(name, value)
        }

        fn and(mut self, name: &'static str, value: &str) -> Self {
            self.headers.push((name, value.to_owned()));
            self
        }

        fn without(mut self, name: &str) -> Self {
            self.headers.retain(|(known, _)| *known != name);
            self
        }

        fn post(mut self) -> Self {
            self.method = Method::POST;
            self
        }

        fn is_served(&self) -> bool {
            let mut headers = HeaderMap::new();
            for (name, value) in &self.headers {
                headers.append(*name, HeaderValue::from_str(value).expect("a value"));
            }
            self.gate.verdict(&self.method, &self.uri.parse().expect("a path"), &headers) == Verdict::Served
        }
    }

    #[test]
    fn only_our_own_names_are_served() {
        assert!(asked("/").is_served());
        assert!(asked("/").with("host", "localhost:7575").is_served());
        assert!(asked("/").with("host", "LOCALHOST:7575").is_served());
        assert!(asked("http://localhost:7575/").is_served());
        for name in
            ["evil.example:7575", "127.0.0.1", "127.0.0.1:7576", "localhost", "", "127.0.0.1:7575.evil.example"]
        {
            assert!(!asked("/").with("host", name).is_served(), "{name}");
        }
        assert!(!asked("/").without("host").is_served());
        assert!(!asked("/").and("host", "127.0.0.1:7575").is_served());
        assert!(!asked("http://evil.example/").is_served());
    }

    #[test]
    fn no_other_origin_is_served() {
        assert!(asked("/api/events").with("origin", "http://127.0.0.1:7575").is_served());
        for origin in ["http://evil.example", "null", "http://127.0.0.1:7576", "https://127.0.0.1:7575", ""] {
            assert!(!asked("/api/events").with("origin", origin).is_served(), "{origin}");
            assert!(!asked("/").with("origin", origin).is_served(), "{origin}");
        }
        for site in ["cross-site", "same-site", "something"] {
            assert!(!asked("/api/events").with("sec-fetch-site", site).is_served(), "{site}");
            assert!(!asked("/").with("sec-fetch-site", site).is_served(), "{site}");
            let link = asked("/").with("sec-fetch-site", site).with("sec-fetch-dest", "document");
            assert!(link.is_served(), "{site}");
        }
        assert!(asked("/api/events").with("sec-fetch-site", "same-origin").is_served());
    }

    #[test]
    fn a_change_must_name_its_origin() {
        assert!(!asked("/api/stop").post().is_served());
        assert!(asked("/api/stop").post().with("origin", "http://localhost:7575").is_served());
        let twice =
            asked("/api/stop").post().with("origin", "http://localhost:7575").and("origin", "http://localhost:7575");
        assert!(!twice.is_served());
    }

    #[test]
    fn the_token_is_in_a_header_or_a_cookie_and_nowhere_else() {
        let token = |asked: &Asked| asked.gate.token.as_str().to_owned();
        let by_cookie = |value: &dyn Fn(&str) -> String| {
            let asked = asked("/api/events").without("authorization");
            let value = value(&token(&asked));
            asked.with("cookie", &value).is_served()
        };
        assert!(by_cookie(&|token| format!("nostray-7575={token}")));
        assert!(by_cookie(&|token| format!("a=b; nostray-7575=old;  nostray-7575={token}; c")));
        assert!(!by_cookie(&|token| format!("nostray-7576={token}")));
        assert!(!by_cookie(&|token| format!("nostray-7575={}", token.to_uppercase() + "x")));
        for wrong in ["", "Bearer ", "Bearer x", "Basic x"] {
            assert!(!asked("/").with("authorization", wrong).is_served(), "{wrong}");
        }
        assert!(!asked("/").without("authorization").is_served());
        assert!(!asked("/api/events?token=x").without("authorization").is_served());
    }

    #[test]
    fn the_address_of_an_ipv6_listener_has_brackets() {
        let gate = Gate::new("[::1]:80".parse().expect("an address"), Token::new());
        assert!(gate.address().starts_with("http://[::1]:80/?token="));
    }
}
