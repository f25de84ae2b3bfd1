//! A real Prometheus scrapes `nostray web`, with the token in a header or in the address, and not without it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use badchild::{PATIENCE, comes_true};
use serde_json::Value;
use testkit::stage::Stage;

use super::has;
use crate::supervised;
use crate::web::http::Web;

struct Prometheus {
    process: Child,
    host: String,
}

impl Prometheus {
    fn start(stage: &Stage, web: &Web) -> Self {
        std::fs::write(stage.file("token"), &web.token).expect("write");
        let targets = format!("static_configs: [{{ targets: [\"{}\"] }}]", web.host);
        let config = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n\
             - {{ job_name: header, authorization: {{ credentials_file: {} }}, {targets} }}\n\
             - {{ job_name: address, params: {{ token: [\"{}\"] }}, {targets} }}\n\
             - {{ job_name: without, {targets} }}\n",
            stage.file("token"),
            web.token
        );
        std::fs::write(stage.file("prometheus.yml"), config).expect("write");
        // A port that was free a moment ago.
        let host =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
        let mut command = stage.scene.command("prometheus".as_ref());
        command.arg(format!("--config.file={}", stage.file("prometheus.yml")));
        command.arg(format!("--storage.tsdb.path={}", stage.file("data")));
        command.arg(format!("--web.listen-address={host}")).arg("--log.level=error");
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("start prometheus");
        Self { process, host }
    }

    /// The values of a query, each with its labels.
    fn query(&self, query: &str) -> Vec<Value> {
        let Ok(mut stream) = TcpStream::connect(&self.host) else { return Vec::new() };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\nHost: {}\r\n\r\n", self.host).ok();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let told: Value = serde_json::from_str(body).unwrap_or_default();
        told["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn a_real_prometheus_scrapes_it() {
    if !has("prometheus") {
        return;
    }
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = supervised(&stage, "files");
    for _ in 0..3 {
        caller.who();
    }
    let prometheus = Prometheus::start(&stage, &web);
    let of_job = |found: &[Value], job: &str| found.iter().find(|one| one["metric"]["job"] == job).cloned();
    let mut found = Vec::new();
    let is_there = comes_true(PATIENCE, &mut || {
        found = prometheus.query("nostray_calls_total");
        let is_who = |one: &Value| one["metric"]["mcp_method_name"] == "who";
        found.retain(is_who);
        ["header", "address"].iter().all(|job| of_job(&found, job).is_some())
    });
    assert!(is_there, "{found:#?}");
    for job in ["header", "address"] {
        let one = of_job(&found, job).expect("there");
        assert_eq!((&one["metric"]["name"], &one["value"][1]), (&Value::from("files"), &Value::from("3")));
    }
    let mut up = Vec::new();
    assert!(comes_true(PATIENCE, &mut || {
        up = prometheus.query("up");
        up.len() == 3
    }));
    let value = |job: &str| of_job(&up, job).map(|one| one["value"][1].clone());
    let one = Some(Value::from("1"));
    assert_eq!((value("header"), value("address"), value("without")), (one.clone(), one, Some(Value::from("0"))));
    drop(prometheus);
    web.end();
    caller.end(&stage);
}
