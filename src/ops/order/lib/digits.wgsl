// Digits of ranks, four bits each, and how often each of them occurs. Teams exchange counts of eight digits at a time, with
// 16 bits each: no team may have more elements than that.
const DIGITS: u32 = 16u;

alias Counts = array<u32, DIGITS>;

fn digit_of(rank: u32) -> u32 { return (rank >> params.shift) % DIGITS; }

fn packed_counts(c: Counts, first: u32) -> vec4u {
  return vec4u(c[first], c[first + 2u], c[first + 4u], c[first + 6u]) |
         (vec4u(c[first + 1u], c[first + 3u], c[first + 5u], c[first + 7u]) << vec4u(16u));
}

fn unpacked_counts(low: vec4u, high: vec4u) -> Counts {
  var c = Counts();
  for (var i = 0u; i < 4u; i++) {
    c[2u * i] = low[i] & 0xffffu;
    c[2u * i + 1u] = low[i] >> 16u;
    c[2u * i + 8u] = high[i] & 0xffffu;
    c[2u * i + 9u] = high[i] >> 16u;
  }
  return c;
}
