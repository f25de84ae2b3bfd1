//! No session can speak with another's voice, whichever reader is at the other end. The same checks are fuzzed (`fuzz/run 60 voices`);
//! `NOSTRAY_LONG=1 cargo test --release -p nostray-broker --test voices` tries ten million changed attacks, among them
//! those that the fuzzer has found interesting.

mod checks;
mod readers;

use std::fs;
use std::path::Path;

use checks::voices;
use nostray_sys::random::Random;

/// The seeds of the fuzzer, which are attacks that worked; and what it has made of them, where it has run.
fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let seeds = fs::read_dir(root.join("fuzz/corpus/voices")).expect("the seeds are there");
    let grown = fs::read_dir(root.join("target/fuzz/corpus/voices")).ok().filter(|_| is_long());
    let files = seeds.chain(grown.into_iter().flatten());
    let inputs = files.map(|file| fs::read(file.expect("a file").path()).expect("read a seed"));
    inputs.filter(|input| input.len() > 1).collect()
}

fn is_long() -> bool {
    std::env::var_os("NOSTRAY_LONG").is_some()
}

#[test]
fn every_known_attack_fails_in_every_protocol_and_direction() {
    let seeds = corpus();
    assert!(seeds.len() > 20, "{}", seeds.len());
    for seed in seeds {
        for first in 0..4 {
            voices(&[&[first], &seed[1..]].concat());
        }
    }
}

#[test]
fn attacks_with_a_few_bytes_changed_fail_too() {
    let seeds = corpus();
    let parts: [&[u8]; 16] = [
        b"\r",
        "\u{2028}".as_bytes(),
        b"\\u0069",
        b"\"",
        b"\\",
        b"3",
        b"77",
        b",\"id\":3",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"\0",
        b"\n",
        b"I",
    ];
    let mut random = Random::new(1);
    let mut dice = |sides: usize| random.index(sides);
    for _ in 0..if is_long() { 10_000_000 } else { 4_000 } {
        let mut input = seeds[dice(seeds.len())].clone();
        for _ in 0..=dice(3) {
            let at = 1 + dice(input.len() - 1);
            let until = (at + [0, 0, 1, 3][dice(4)]).min(input.len());
            input.splice(at..until, parts[dice(parts.len())].iter().copied());
        }
        voices(&input);
    }
}
