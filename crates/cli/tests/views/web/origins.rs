//! A page of another origin, in the same browser with the same cookies, can neither read nor act.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;
use testkit::stage::Stage;

use super::browser::Browser;
use super::http::Web;
use crate::supervised;

/// Serves one page to every client, on another port of the same host. Browsers send it the cookies of that host.
fn another_server() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address").to_string();
    (address, listener)
}

fn serve_forever(listener: TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut request = [0; 4096];
        // Whatever it asks for, or nothing.
        let Ok(_) = stream.read(&mut request) else { continue };
        let page = "<!doctype html><link rel=icon href='data:,'><title>other</title>";
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len()).ok();
    }
}

#[test]
fn a_page_of_another_origin_gets_nothing() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "files");
    let id = super::pen(&stage, "files")["id"].clone();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    let cookies = browser.ask(json!({ "do": "cookies" }));
    assert!(cookies[0]["httpOnly"] == true && cookies[0]["sameSite"] == "Strict", "{cookies}");
    assert_eq!(browser.ask(json!({ "do": "url" })), format!("http://{}/", web.host));
    assert_eq!(browser.run("document.cookie"), "");
    let (other, listener) = another_server();
    // Ends with the test program.
    std::thread::spawn(move || serve_forever(listener));
    for host in [other.clone(), other.replace("127.0.0.1", "localhost")] {
        browser.ask(json!({ "do": "openAnother", "url": format!("http://{host}/") }));
        let at = format!("http://{}", web.host);
        let fetched = |path: &str, options: &str| {
            format!(
                "fetch('{at}{path}', {options}).then((answer) => `got ${{answer.type}} ${{answer.status}}`, () => 'failed')"
            )
        };
        let body = format!("body: JSON.stringify({{ id: {id} }})");
        for (path, options) in [
            ("/", "{ credentials: 'include' }".to_owned()),
            ("/api/events", "{ credentials: 'include' }".to_owned()),
            ("/metrics", "{ credentials: 'include' }".to_owned()),
            (
                "/api/stop",
                format!(
                    "{{ method: 'POST', credentials: 'include', headers: {{ 'content-type': 'application/json' }}, {body} }}"
                ),
            ),
            (
                "/api/stop",
                format!(
                    "{{ method: 'POST', credentials: 'include', headers: {{ 'content-type': 'text/plain' }}, {body} }}"
                ),
            ),
        ] {
            assert_eq!(browser.run(&fetched(path, &options)), "failed", "{path} {options} from {host}");
        }
        let opaque = format!("{{ method: 'POST', mode: 'no-cors', credentials: 'include', {body} }}");
        let answer = browser.run(&fetched("/api/stop", &opaque));
        assert!(answer == "failed" || answer == "got opaque 0", "{answer}");
        let stream = format!(
            "new Promise((tell) => {{ const events = new EventSource('{at}/api/events', {{ withCredentials: true }}); \
             events.onerror = () => tell('failed'); events.addEventListener('snapshot', () => tell('got it')); }})"
        );
        assert_eq!(browser.run(&stream), "failed");
        let frame = format!(
            "new Promise((tell) => {{ const frame = document.createElement('iframe'); frame.src = '{at}/'; \
             frame.onload = () => {{ try {{ tell(frame.contentDocument?.title ?? 'nothing'); }} catch {{ tell('nothing'); }} }}; \
             document.documentElement.append(frame); }})"
        );
        assert_eq!(browser.run(&frame), "nothing");
        // As a script or an image, which needs no permission to read.
        let script = format!(
            "new Promise((tell) => {{ const script = document.createElement('script'); script.src = '{at}/metrics'; \
             script.onerror = () => tell('failed'); script.onload = () => tell('got it'); document.documentElement.append(script); }})"
        );
        assert_eq!(browser.run(&script), "failed");
    }
    assert_eq!(
        (&super::pen(&stage, "files")["state"], &super::pen(&stage, "files")["generation"]),
        (&json!("ready"), &json!(1))
    );
    browser.end();
    web.end();
    caller.end(&stage);
}
