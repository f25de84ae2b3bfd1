//! `wrap` and `unwrap` of a host's configuration.

use under_wine::Stage;

const CONFIG: &str = "{\r\n  // kept\r\n  \"mcpServers\": {\r\n    \"memory\": { \"command\": \"cmd\", \
                      \"args\": [\"/c\", \"npx\", \"-y\", \"@scope/server-memory\"] }\r\n  }\r\n}\r\n";

#[test]
fn an_entry_with_cmd_is_wrapped_and_unwrapped_to_the_same_bytes() {
    let stage = Stage::new("wrap");
    let file = stage.folder().join("mcp.json");
    std::fs::write(&file, CONFIG).expect("written");
    let path = stage.path("mcp.json");
    let wrapped = stage.run("nostray.exe", &["wrap", "--file", &path, "--yes"]);
    assert!(wrapped.status.success(), "{wrapped:?}");
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(text.contains("\"run\", \"--\", \"cmd\", \"/c\", \"npx\", \"-y\", \"@scope/server-memory\""), "{text}");
    assert!(text.contains("nostray.exe") && text.contains("// kept\r\n"), "{text}");
    let unwrapped = stage.run("nostray.exe", &["unwrap", "--file", &path, "--yes"]);
    assert!(unwrapped.status.success(), "{unwrapped:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), CONFIG);
}

#[test]
fn a_way_that_is_not_there_yet_is_not_written() {
    let stage = Stage::new("wrap-share");
    std::fs::write(stage.folder().join("mcp.json"), CONFIG).expect("written");
    let said = stage.run("nostray.exe", &["wrap", "--file", &stage.path("mcp.json"), "--share", "memory", "--yes"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert_eq!(std::fs::read_to_string(stage.folder().join("mcp.json")).expect("read"), CONFIG);
}
