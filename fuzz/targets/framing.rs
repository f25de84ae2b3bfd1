//! Any stream, in any pieces: cut into lines. What must hold is said in `crates/rpc/tests/checks`.
//!
//! The first byte says how long a line may be, the second one how the stream is cut into pieces. In the rest, 0x01 and a byte
//! stand for a run of many bytes: a fuzzer's input is short, but a buffer is only moved and grown by what is long.
#![no_main]

#[path = "../../crates/rpc/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [limit, seed, rest @ ..] = data else { return };
    let limits = [0, 1, 2, 10, 1000, 16 << 10, 64 << 10, 70_000, 200_000, usize::MAX];
    let mut stream = Vec::new();
    let mut rest = rest.iter();
    while let Some(byte) = rest.next() {
        match byte {
            1 => {
                let count = rest.next().map_or(0, |count| usize::from(*count) * 257);
                stream.extend(std::iter::repeat_n(b'x', count));
            }
            byte => stream.push(*byte),
        }
        if stream.len() > 300_000 {
            break;
        }
    }
    checks::framing(&stream, limits[usize::from(*limit) % limits.len()], u64::from(*seed));
});
