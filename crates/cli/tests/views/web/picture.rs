//! docs/web.png and docs/web-dark.png are of this page: `bench/web-png` writes a digest of the page's sources into each.

use std::path::Path;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// FNV-1a, as in the script.
fn digest() -> String {
    let folder = std::fs::read_dir(root().join("crates/web/src/page")).expect("list");
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let bytes = files.iter().flat_map(|file| std::fs::read(file).expect("read"));
    let digest = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{digest:016x}")
}

#[test]
fn the_pictures_are_of_this_page_and_small() {
    for name in ["docs/web.png", "docs/web-dark.png"] {
        let picture = std::fs::read(root().join(name)).expect("read");
        assert!(picture.starts_with(b"\x89PNG") && picture.len() < 150_000, "{name}: {} bytes", picture.len());
        let stamp = format!("nostray-page\0{}", digest());
        let is_there = picture.windows(stamp.len()).any(|part| part == stamp.as_bytes());
        let build = "cargo build --release --bin nostray --bin badchild";
        assert!(is_there, "{name} is of another page: `{build} && bench/web-png`, and commit both pictures");
    }
}
