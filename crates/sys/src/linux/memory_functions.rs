//! Copying, filling and comparing memory, for programs that are linked with musl: its own functions for x86_64 take the same way for every length,
//! or go byte by byte, and short messages then cost a steward half as much again. [`crate::program!`] puts these in their place. A program that
//! only embeds the library keeps those that it has.
//!
//! In assembly, since the compiler makes a loop that copies into a call of the function that copies. Every length up to 128 is a few loads, which
//! may overlap, and then as many stores. So nothing outside of the range is touched, and what overlaps is copied as it was.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

/// `memcpy` and `memmove`.
///
/// # Safety
/// As for `memmove`.
#[unsafe(naked)]
pub unsafe extern "C" fn copy(_to: *mut c_void, _from: *const c_void, _count: usize) -> *mut c_void {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 30f",
        "cmp rdx, 32",
        "ja 20f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm1",
        "ret",
        "20:",
        "cmp rdx, 64",
        "ja 21f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + rdx - 32]",
        "movups xmm3, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + rdx - 32], xmm2",
        "movups [rdi + rdx - 16], xmm3",
        "ret",
        "21:",
        "cmp rdx, 128",
        "ja 22f",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups xmm4, [rsi + rdx - 64]",
        "movups xmm5, [rsi + rdx - 48]",
        "movups xmm6, [rsi + rdx - 32]",
        "movups xmm7, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "movups [rdi + rdx - 64], xmm4",
        "movups [rdi + rdx - 48], xmm5",
        "movups [rdi + rdx - 32], xmm6",
        "movups [rdi + rdx - 16], xmm7",
        "ret",
        "22:",
        // Where the target begins inside of the source, it is copied from the end.
        "mov rcx, rdi",
        "sub rcx, rsi",
        "cmp rcx, rdx",
        "jb 25f",
        "cmp rdx, 2048",
        "jae 24f",
        // The rest that is no whole block is read first and written last.
        "23:",
        "movups xmm4, [rsi + rdx - 64]",
        "movups xmm5, [rsi + rdx - 48]",
        "movups xmm6, [rsi + rdx - 32]",
        "movups xmm7, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 64]",
        "27:",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "add rsi, 64",
        "add rdi, 64",
        "cmp rdi, r8",
        "jb 27b",
        "movups [r8], xmm4",
        "movups [r8 + 16], xmm5",
        "movups [r8 + 32], xmm6",
        "movups [r8 + 48], xmm7",
        "ret",
        // What does not overlap, with the processor's own way, for which a start takes some time.
        "24:",
        "neg rcx",
        "cmp rcx, rdx",
        "jb 23b",
        "movups xmm4, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 16]",
        "mov rcx, rdx",
        "shr rcx, 3",
        "rep movsq",
        "movups [r8], xmm4",
        "ret",
        "25:",
        "movups xmm4, [rsi]",
        "movups xmm5, [rsi + 16]",
        "movups xmm6, [rsi + 32]",
        "movups xmm7, [rsi + 48]",
        "26:",
        "movups xmm0, [rsi + rdx - 64]",
        "movups xmm1, [rsi + rdx - 48]",
        "movups xmm2, [rsi + rdx - 32]",
        "movups xmm3, [rsi + rdx - 16]",
        "movups [rdi + rdx - 64], xmm0",
        "movups [rdi + rdx - 48], xmm1",
        "movups [rdi + rdx - 32], xmm2",
        "movups [rdi + rdx - 16], xmm3",
        "sub rdx, 64",
        "cmp rdx, 64",
        "ja 26b",
        "movups [rdi], xmm4",
        "movups [rdi + 16], xmm5",
        "movups [rdi + 32], xmm6",
        "movups [rdi + 48], xmm7",
        "ret",
        "30:",
        "cmp edx, 8",
        "jb 31f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "31:",
        "cmp edx, 4",
        "jb 32f",
        "mov ecx, [rsi]",
        "mov r8d, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], r8d",
        "ret",
        "32:",
        "test edx, edx",
        "jz 33f",
        // The first, the middle and the last of one to three bytes.
        "mov r9d, edx",
        "shr r9d, 1",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + r9]",
        "movzx r10d, byte ptr [rsi + rdx - 1]",
        "mov [rdi], cl",
        "mov [rdi + r9], r8b",
        "mov [rdi + rdx - 1], r10b",
        "33:",
        "ret",
    )
}

/// `memset`.
///
/// # Safety
/// As for `memset`.
#[unsafe(naked)]
pub unsafe extern "C" fn fill(_to: *mut c_void, _byte: c_int, _count: usize) -> *mut c_void {
    naked_asm!(
        "movzx esi, sil",
        "mov r8, 0x0101010101010101",
        "imul rsi, r8",
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 30f",
        "movq xmm0, rsi",
        "punpcklqdq xmm0, xmm0",
        "cmp rdx, 32",
        "ja 20f",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm0",
        "ret",
        "20:",
        "cmp rdx, 64",
        "ja 21f",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm0",
        "movups [rdi + rdx - 32], xmm0",
        "movups [rdi + rdx - 16], xmm0",
        "ret",
        "21:",
        "cmp rdx, 2048",
        "jae 24f",
        "lea r8, [rdi + rdx - 64]",
        "23:",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm0",
        "movups [rdi + 32], xmm0",
        "movups [rdi + 48], xmm0",
        "add rdi, 64",
        "cmp rdi, r8",
        "jb 23b",
        "movups [r8], xmm0",
        "movups [r8 + 16], xmm0",
        "movups [r8 + 32], xmm0",
        "movups [r8 + 48], xmm0",
        "ret",
        "24:",
        "movups [rdi + rdx - 16], xmm0",
        "mov r8, rdi",
        "mov rax, rsi",
        "mov rcx, rdx",
        "shr rcx, 3",
        "rep stosq",
        "mov rax, r8",
        "ret",
        "30:",
        "cmp edx, 8",
        "jb 31f",
        "mov [rdi], rsi",
        "mov [rdi + rdx - 8], rsi",
        "ret",
        "31:",
        "cmp edx, 4",
        "jb 32f",
        "mov [rdi], esi",
        "mov [rdi + rdx - 4], esi",
        "ret",
        "32:",
        "test edx, edx",
        "jz 33f",
        "mov r9d, edx",
        "shr r9d, 1",
        "mov [rdi], sil",
        "mov [rdi + r9], sil",
        "mov [rdi + rdx - 1], sil",
        "33:",
        "ret",
    )
}

/// `memcmp` and `bcmp`.
///
/// # Safety
/// As for `memcmp`.
#[unsafe(naked)]
pub unsafe extern "C" fn compare(_one: *const c_void, _other: *const c_void, _count: usize) -> c_int {
    naked_asm!(
        "cmp rdx, 16",
        "jb 30f",
        "je 21f",
        "20:",
        "movdqu xmm0, [rdi]",
        "movdqu xmm1, [rsi]",
        "pcmpeqb xmm0, xmm1",
        "pmovmskb eax, xmm0",
        "xor eax, 0xffff",
        "jnz 22f",
        "add rdi, 16",
        "add rsi, 16",
        "sub rdx, 16",
        "cmp rdx, 16",
        "ja 20b",
        // The last 16 bytes, some of which may have been compared.
        "21:",
        "lea rdi, [rdi + rdx - 16]",
        "lea rsi, [rsi + rdx - 16]",
        "movdqu xmm0, [rdi]",
        "movdqu xmm1, [rsi]",
        "pcmpeqb xmm0, xmm1",
        "pmovmskb eax, xmm0",
        "xor eax, 0xffff",
        "jnz 22f",
        "ret",
        "22:",
        "bsf eax, eax",
        "movzx ecx, byte ptr [rsi + rax]",
        "movzx eax, byte ptr [rdi + rax]",
        "sub eax, ecx",
        "ret",
        "30:",
        "cmp edx, 8",
        "jb 31f",
        "mov rax, [rdi]",
        "mov rcx, [rsi]",
        "cmp rax, rcx",
        "jne 34f",
        "mov rax, [rdi + rdx - 8]",
        "mov rcx, [rsi + rdx - 8]",
        "jmp 34f",
        "31:",
        "cmp edx, 4",
        "jb 32f",
        "mov eax, [rdi]",
        "mov ecx, [rsi]",
        "cmp eax, ecx",
        "jne 34f",
        "mov eax, [rdi + rdx - 4]",
        "mov ecx, [rsi + rdx - 4]",
        "jmp 34f",
        "32:",
        "test edx, edx",
        "jz 33f",
        // One to three bytes, the first of which counts most.
        "movzx eax, byte ptr [rdi]",
        "movzx ecx, byte ptr [rsi]",
        "sub eax, ecx",
        "jnz 35f",
        "mov r9d, edx",
        "shr r9d, 1",
        "movzx eax, byte ptr [rdi + r9]",
        "movzx ecx, byte ptr [rsi + r9]",
        "sub eax, ecx",
        "jnz 35f",
        "movzx eax, byte ptr [rdi + rdx - 1]",
        "movzx ecx, byte ptr [rsi + rdx - 1]",
        "sub eax, ecx",
        "ret",
        "33:",
        "xor eax, eax",
        "35:",
        "ret",
        // The byte that comes first counts most.
        "34:",
        "bswap rax",
        "bswap rcx",
        "xor edx, edx",
        "cmp rax, rcx",
        "seta dl",
        "sbb edx, 0",
        "mov eax, edx",
        "ret",
    )
}

/// Puts the functions in the place of the C library's. For [`crate::program!`].
#[macro_export]
macro_rules! use_memory_functions {
    () => {
        const _: () = {
            use std::ffi::{c_int, c_void};

            use $crate::memory_functions::{compare, copy, fill};

            #[unsafe(no_mangle)]
            unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void {
                // SAFETY: the caller's, in this function and those below.
                unsafe { copy(to, from, count) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { copy(to, from, count) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn memset(to: *mut c_void, byte: c_int, count: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { fill(to, byte, count) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn memcmp(one: *const c_void, other: *const c_void, count: usize) -> c_int {
                // SAFETY: as above.
                unsafe { compare(one, other, count) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn bcmp(one: *const c_void, other: *const c_void, count: usize) -> c_int {
                // SAFETY: as above.
                unsafe { compare(one, other, count) }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length that takes a way of its own, and those around it.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..=300).chain([511, 512, 513, 2046, 2047, 2048, 2049, 2055, 4096, 5003])
    }

    fn noise(count: usize, seed: usize) -> Vec<u8> {
        (0..count).map(|at| ((at + 1) * (2 * seed + 7) % 251) as u8).collect()
    }

    /// So many bytes that end where memory does that no process may touch, or begin behind such memory.
    struct AtTheEdge {
        map: *mut c_void,
        page: usize,
    }

    impl AtTheEdge {
        const PAGES: usize = 2;

        fn new() -> Self {
            let page = 4096;
            let length = (Self::PAGES + 2) * page;
            // SAFETY: new memory, of which the first and the last page are locked away.
            let map = unsafe {
                let (nothing, both) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
                let map =
                    libc::mmap(std::ptr::null_mut(), length, nothing, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
                assert_ne!(map, libc::MAP_FAILED);
                assert_eq!(libc::mprotect(map.byte_add(page), Self::PAGES * page, both), 0);
                map
            };
            Self { map, page }
        }

        fn at(&self, count: usize, at_the_end: bool) -> *mut u8 {
            let skipped = if at_the_end { Self::PAGES * self.page - count } else { 0 };
            // SAFETY: inside of the map.
            unsafe { self.map.byte_add(self.page + skipped).cast() }
        }
    }

    impl Drop for AtTheEdge {
        fn drop(&mut self) {
            // SAFETY: nothing points there any more.
            unsafe { libc::munmap(self.map, (Self::PAGES + 2) * self.page) };
        }
    }

    #[test]
    fn what_is_copied_arrives_and_nothing_beside_it_is_touched() {
        let (source, target) = (AtTheEdge::new(), AtTheEdge::new());
        for count in lengths() {
            for at_the_end in [false, true] {
                let (from, to) = (source.at(count, at_the_end), target.at(count, at_the_end));
                let expected = noise(count, count);
                // SAFETY: both are as long as that, and apart.
                let got = unsafe {
                    std::slice::from_raw_parts_mut(from, count).copy_from_slice(&expected);
                    assert_eq!(copy(to.cast(), from.cast(), count), to.cast());
                    std::slice::from_raw_parts(to, count)
                };
                assert!(got == expected, "{count}");
            }
            let (before, mut around) = (noise(count, 3), vec![0xee; count + 32]);
            // SAFETY: there is room in the middle.
            unsafe { copy(around[16..].as_mut_ptr().cast(), before.as_ptr().cast(), count) };
            assert!(around[..16].iter().chain(&around[16 + count..]).all(|byte| *byte == 0xee), "{count}");
        }
    }

    #[test]
    fn what_overlaps_is_copied_as_it_was() {
        for count in lengths() {
            for distance in [0, 1, 7, 15, 16, 17, 63, 64, 65, 130, 1000] {
                for (from, to) in [(0, distance), (distance, 0)] {
                    let mut bytes = noise(count + distance, count + distance);
                    let mut expected = bytes.clone();
                    expected.copy_within(from..from + count, to);
                    let all = bytes.as_mut_ptr();
                    // SAFETY: both ranges are inside of the vector.
                    unsafe { copy(all.add(to).cast(), all.add(from).cast(), count) };
                    assert!(bytes == expected, "{count} bytes from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn what_is_filled_is_all_of_it_and_nothing_else() {
        let target = AtTheEdge::new();
        for count in lengths() {
            for (byte, at_the_end) in [(0, false), (0x5a, true), (-1, true)] {
                let to = target.at(count, at_the_end);
                // SAFETY: it is as long as that.
                let got = unsafe {
                    assert_eq!(fill(to.cast(), byte, count), to.cast());
                    std::slice::from_raw_parts(to, count)
                };
                assert!(got.iter().all(|found| *found == (byte & 0xff) as u8), "{count}");
            }
            let mut around = vec![0xee; count + 32];
            // SAFETY: there is room in the middle.
            unsafe { fill(around[16..].as_mut_ptr().cast(), 1, count) };
            assert!(around[..16].iter().chain(&around[16 + count..]).all(|byte| *byte == 0xee), "{count}");
        }
    }

    #[test]
    fn the_first_byte_that_differs_decides_and_those_behind_the_end_do_not() {
        let (one, other) = (AtTheEdge::new(), AtTheEdge::new());
        for count in lengths() {
            for at_the_end in [false, true] {
                let text = noise(count, 5);
                let (left, right) = (one.at(count, at_the_end), other.at(count, at_the_end));
                // SAFETY: both are as long as that, and apart.
                let (left, right) = unsafe {
                    (std::slice::from_raw_parts_mut(left, count), std::slice::from_raw_parts_mut(right, count))
                };
                left.copy_from_slice(&text);
                right.copy_from_slice(&text);
                // SAFETY: as above.
                let compared = |left: &[u8], right: &[u8]| unsafe {
                    compare(left.as_ptr().cast(), right.as_ptr().cast(), count)
                };
                assert_eq!(compared(left, right), 0, "{count}");
                for at in (0..count).step_by(1 + count / 70) {
                    // Behind it, the other one is the larger.
                    right[at] = text[at].wrapping_add(100);
                    if at + 1 < count {
                        right[at + 1] = text[at + 1].wrapping_sub(100);
                    }
                    let expected = left.cmp(&right) as c_int;
                    assert_eq!(compared(left, right).signum(), expected, "{count} bytes, of which {at} differs");
                    assert_eq!(compared(right, left).signum(), -expected, "{count} bytes, of which {at} differs");
                    right.copy_from_slice(&text);
                }
            }
        }
    }
}
