//! Only the user who has the token, by a name of ours and from our own page, gets anything but 403.

use badchild::Folder;
use testkit::stage::Stage;

use super::http::{Answer, Web, command};
use crate::supervised;

/// Every path that is served, and some that are not.
const PATHS: [&str; 9] = [
    "/",
    "/metrics",
    "/api/events",
    "/api/history?id=x",
    "/api/restart",
    "/api/stop",
    "/nothing",
    "/../../etc/passwd",
    "//",
];

fn expect_refused(answer: &Answer) {
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(!answer.body.contains("<script") && answer.body.starts_with("403: "), "{answer:?}");
    expect_sealed(answer);
}

fn expect_sealed(answer: &Answer) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    let policy = answer.header("content-security-policy").expect("a policy");
    for rule in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn without_the_token_or_with_a_wrong_one_nothing_is_served() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let other = "0".repeat(64);
    let bearer = format!("Bearer {other}");
    let cookie = format!("nostray-{}={other}", web.host.rsplit(':').next().expect("a port"));
    for path in PATHS {
        let host = ("Host", web.host.as_str());
        expect_refused(&web.ask("GET", path, &[host], ""));
        expect_refused(&web.ask("GET", path, &[host, ("Authorization", &bearer)], ""));
        expect_refused(&web.ask("GET", path, &[host, ("Cookie", &cookie)], ""));
        let origin = format!("http://{}", web.host);
        let kind = ("Content-Type", "application/json");
        expect_refused(&web.ask("POST", path, &[host, ("Origin", &origin), kind], r#"{"id":"x"}"#));
        for method in ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert_eq!(web.ask(method, path, &[host], "").status, 403, "{method} {path}");
        }
    }
    for query in ["", "token=", "token=x", &format!("token={other}"), &format!("Token={}", web.token)] {
        expect_refused(&web.ask("GET", &format!("/?{query}"), &[("Host", &web.host)], ""));
        expect_refused(&web.ask("GET", &format!("/metrics?{query}"), &[("Host", &web.host)], ""));
    }
    // The right token in the address opens `/` and `/metrics` only.
    expect_refused(&web.ask("GET", &format!("/api/events?token={}", web.token), &[("Host", &web.host)], ""));
    web.end();
    stage.scene.expect_empty();
}

#[test]
fn a_foreign_name_is_refused_although_the_token_is_right() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let bearer = web.bearer();
    let port = web.host.rsplit(':').next().expect("a port").to_owned();
    for host in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", "localhost", "", &format!("[::1]:{port}")]
    {
        for path in PATHS {
            expect_refused(&web.ask("GET", path, &[("Host", host), ("Authorization", &bearer)], ""));
        }
    }
    let twice = [("Host", web.host.as_str()), ("Host", "evil.example"), ("Authorization", &bearer)];
    assert_ne!(web.ask("GET", "/", &twice, "").status, 200);
    assert_ne!(web.ask("GET", "/", &[("Authorization", &bearer)], "").status, 200);
    let proxied = web.ask("GET", "http://evil.example/", &[("Host", &web.host), ("Authorization", &bearer)], "");
    expect_refused(&proxied);
    let local = format!("localhost:{port}");
    assert_eq!(web.ask("GET", "/", &[("Host", &local), ("Authorization", &bearer)], "").status, 200);
    web.end();
}

#[test]
fn a_foreign_origin_is_refused_although_the_token_is_right() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = supervised(&stage, "files");
    let id = super::pens(&stage)[0]["id"].as_str().expect("an id").to_owned();
    let (bearer, body) = (web.bearer(), format!(r#"{{"id":"{id}"}}"#));
    let own = format!("http://{}", web.host);
    let other_port = "http://127.0.0.1:1";
    for origin in ["http://evil.example", "https://evil.example", "null", other_port, &format!("{own}.evil.example")]
    {
        let headers = [
            ("Host", web.host.as_str()),
            ("Authorization", &bearer),
            ("Origin", origin),
            ("Content-Type", "application/json"),
        ];
        expect_refused(&web.ask("POST", "/api/stop", &headers, &body));
        expect_refused(&web.ask("GET", "/api/events", &headers[..3], ""));
        expect_refused(&web.ask("GET", "/", &headers[..3], ""));
        expect_refused(&web.ask("OPTIONS", "/api/stop", &headers[..3], ""));
    }
    let base = [("Host", web.host.as_str()), ("Authorization", bearer.as_str())];
    let kind = ("Content-Type", "application/json");
    expect_refused(&web.ask("POST", "/api/stop", &[&base[..], &[kind]].concat(), &body));
    for site in ["cross-site", "same-site"] {
        expect_refused(&web.get("/api/events", &[("Sec-Fetch-Site", site)]));
        let site = [("Sec-Fetch-Site", site), ("Origin", own.as_str()), kind];
        expect_refused(&web.ask("POST", "/api/stop", &[&base[..], &site].concat(), &body));
    }
    // A form of any page can send these types.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"] {
        let headers = [&base[..], &[("Origin", own.as_str()), ("Content-Type", kind)]].concat();
        assert_eq!(web.ask("POST", "/api/stop", &headers, &body).status, 415);
    }
    // What it refused, it did not do.
    assert_eq!(super::pens(&stage)[0]["state"], "ready");
    assert!(caller.pid() > 0);
    web.end();
    caller.end(&stage);
}

#[test]
fn a_request_with_the_token_is_served_or_told_what_is_wrong() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let page = web.get("/", &[]);
    assert_eq!(page.status, 200);
    expect_sealed(&page);
    let policy = page.header("content-security-policy").expect("a policy").to_owned();
    assert!(policy.contains("script-src 'nonce-") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(policy.contains("require-trusted-types-for 'script'"), "{policy}");
    assert_ne!(web.get("/", &[]).header("content-security-policy"), Some(policy.as_str()), "the same nonce twice");
    for path in ["/api/restart", "/api/stop"] {
        assert_eq!(web.get(path, &[]).status, 405);
    }
    for path in ["/nothing", "/..", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/", "//"] {
        let answer = web.get(path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        expect_sealed(&answer);
    }
    let (bearer, origin) = (web.bearer(), format!("http://{}", web.host));
    let post = |path: &str, body: &str| {
        let headers = [
            ("Host", web.host.as_str()),
            ("Authorization", &bearer),
            ("Origin", &origin),
            ("Content-Type", "application/json"),
        ];
        web.ask("POST", path, &headers, body).status
    };
    for path in ["/api/restart", "/api/stop"] {
        // An id that is none must not reach the command, which takes options, too.
        for id in ["nothing", "", "--all", "-h", "a b", "../x"] {
            assert_eq!(post(path, &format!(r#"{{"id":"{id}"}}"#)), 404, "{id}");
        }
        for body in ["{", "{}", "[]", r#"{"id":1}"#, r#"{"id":"x","now":true}"#] {
            assert_eq!(post(path, body), 400, "{body}");
        }
        assert_eq!(post(path, &format!(r#"{{"id":"{}"}}"#, "x".repeat(10_000))), 413);
    }
    web.end();
}

#[test]
fn the_token_moves_from_the_address_into_a_strict_cookie() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let answer = web.ask("GET", &format!("/?token={}", web.token), &[("Host", &web.host)], "");
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
    expect_sealed(&answer);
    let port = web.host.rsplit(':').next().expect("a port");
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    assert_eq!(cookie, format!("nostray-{port}={}; Path=/; HttpOnly; SameSite=Strict", web.token));
    let pair = cookie.split(';').next().expect("a pair");
    let page = web.ask("GET", "/", &[("Host", &web.host), ("Cookie", pair)], "");
    assert_eq!(page.status, 200);
    assert!(!page.body.contains(&web.token) && !page.head.contains(&web.token), "the page shows the token");
    assert_eq!(page.header("set-cookie"), None);
    web.end();
}

#[test]
fn another_run_has_another_token_unless_a_file_has_it() {
    let (stage, folder) = (Stage::new(), Folder::new("token"));
    let first = Web::start(&stage);
    let second = Web::start(&stage);
    assert_ne!(first.token, second.token);
    assert!(first.token.len() == 64 && first.host != second.host);
    let wrong = format!("Bearer {}", first.token);
    expect_refused(&second.ask("GET", "/", &[("Host", &second.host), ("Authorization", &wrong)], ""));
    first.end();
    second.end();
    let file = folder.path().join("token").display().to_string();
    let web = Web::start_with(&stage, &["--port", "0", "--token-file", &file]);
    assert_eq!(std::fs::read_to_string(&file).expect("made").trim(), web.token);
    let token = web.token.clone();
    web.end();
    let web = Web::start_with(&stage, &["--port", "0", "--token-file", &file]);
    assert_eq!(web.token, token);
    web.end();
    std::fs::write(&file, "guess").expect("write");
    let output = command(&stage, &["--token-file", &file]).output().expect("run");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("32 characters"), "{output:?}");
}

#[test]
fn only_a_loopback_address_is_listened_on() {
    let stage = Stage::new();
    for address in ["0.0.0.0", "::", "192.0.2.1", "localhost"] {
        let output = command(&stage, &["--address", address]).output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
    }
    let web = Web::start_with(&stage, &["--port", "0", "--address", "::1"]);
    assert!(web.host.starts_with("[::1]:"), "{}", web.host);
    assert_eq!(web.get("/", &[]).status, 200);
    web.end();
}
