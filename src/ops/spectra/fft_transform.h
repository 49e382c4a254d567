// A discrete Fourier transform of rows as its kernels see it, and how it is made. fft.cpp has the ops,
// fft_variants.cpp the ways to make one (and when they apply), fft_passes.cpp the passes over rows, and
// fft_staged.cpp those over rows that are too large for a binding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/lowering.h"
#include "ops/spectra/dft.h"

namespace rlx {

// A transform of rows: what is read, what is written, and what is done on the way.
struct FftTransform {
  Operand x;            // rows of floats or c64
  Operand y;            // rows of c64, or of f32 for the real parts only; the first of n
  int64_t n = 1;        // elements that are transformed
  int64_t signal = 1;   // how many of these x stands for; the others are zero
  bool mirror = false;  // x has the bins 0 .. signal / 2 of the spectrum of floats
  // Pairs of neighbouring floats of x, or of y, are real and imaginary parts.
  bool packed = false, pairs_out = false;
  bool inverse = false;
  double scale = 1;
  Operand pre, post;  // tables of pairs that multiply x and y, for each element of a row; may be absent

  int64_t rows() const;
  std::string key() const;
};

// Emits it in the cheapest of the ways that apply to it; the names of all ways.
void lower_fft(Lowering& l, std::string_view op, const FftTransform& t);
std::vector<std::string> fft_variants();

// The length of one pass over the rows, and the product of those before it.
struct FftPass {
  int64_t length = 1, before = 1;

  // The roots of all before * length are products of one of so many low ones and of a high one.
  int64_t low_roots() const;
};
// The passes of n elements without large prime factors.
std::vector<FftPass> fft_passes(int64_t n, const Caps& caps);

// The values as pairs of f32, as a table of the program.
Operand complex_table(Lowering& l, const ComplexList& values);

// Makes a transform of a length without large prime factors.
class FftLowering {
 public:
  FftLowering(Lowering& l, FftTransform t);

  void run();

 private:
  // Some columns of one row that lie in memory of their own, [length, count].
  struct Block {
    int64_t first = 0, count = 0;
  };

  // Rows of n in scratch memory.
  Operand spectra();
  // One pass, with what is done to x before the first and to y after the last.
  FftTransform step(size_t i, const Operand& x, const Operand& y) const;
  Dispatch make(const FftTransform& t, size_t i, int64_t first_row, int64_t rows, const Block* block) const;
  Dispatch rows_of(const FftTransform& t, size_t i, int64_t begin, int64_t rows) const;
  void run_rows(const FftTransform& t, size_t i);

  // --- Rows that are too large for all bindings, or spread over too much memory (fft_staged.cpp) ---

  void run_staged();
  // x as it would be read, c64[rows, n].
  Operand dense_input();
  // Times a table of pairs, of which the last ones may be missing where x is zero.
  Operand multiplied(const Operand& x, Operand table);
  // What is wanted of the results.
  void store(const Operand& x);
  // One block of columns of a row after the other, gathered and put back by copies, which can be cut
  // anywhere.
  void run_blocks(const FftTransform& t, size_t i);
  void run_block(const FftTransform& t, size_t i, int64_t row, const Block& block, const Operand& gathered,
                 const Operand& made);

  Lowering& l_;
  FftTransform t_;
  int64_t tile_;
  std::vector<FftPass> passes_;
  std::vector<Operand> roots_;    // of each pass
  std::vector<Operand> between_;  // where passes leave what others read
};

}  // namespace rlx
