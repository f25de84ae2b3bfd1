//! README.md is short, and every link leads to a file and a heading that are there.

use std::path::Path;

use super::pages::{Page, root};

#[test]
fn the_readme_is_short_and_has_the_two_commands() {
    let readme = Page::at("README.md");
    assert!(readme.text.lines().count() <= 150, "README.md has {} lines", readme.text.lines().count());
    for command in ["cargo run --release -- demo", "cargo test"] {
        assert!(readme.shell_lines().contains(&command.to_owned()), "README.md does not show '{command}'");
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for page in Page::all() {
        for link in page.links() {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.name.clone() } else { folder.join(file).display().to_string() };
            let is_there = root().join(&target).exists();
            if !is_there || (!anchor.is_empty() && !Page::at(&target).anchors().contains(anchor)) {
                broken.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere: {broken:#?}");
}

#[test]
fn the_readme_leads_to_every_page() {
    let links = Page::at("README.md").links();
    for page in Page::of_users().iter().skip(1) {
        assert!(links.contains(&page.name), "README.md does not name {}", page.name);
    }
}
