#include "measure/case_groups.h"

#include <cstddef>
#include <vector>

#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx::measure {
namespace {

// Both operands are from the host.
Graph product(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {m, k}), g.input("b", DType::f32, {k, n})));
  return g;
}

// a [m, k] from the host, times a weight that lies as [k, n].
Graph linear(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {m, k}), g.param("w", DType::f32, {k, n})));
  return g;
}

// The weight lies as [n, k] and is read like that.
Graph matvec_nk() {
  Graph g;
  const Value w = g.param("w", DType::f32, {4096, 4096});
  g.output("y", matmul(g.input("a", DType::f32, {1, 4096}), transpose(w)));
  return g;
}

// m rows times a weight whose blocks lie along k, as in GGUF files.
template <DType kEncoding, int64_t kRows, int64_t kDepth>
Graph encoded() {
  Graph g;
  const Value w = g.param("w", kEncoding, {4096, kDepth});
  g.output("y", matmul(g.input("a", DType::f32, {kRows, kDepth}), transpose(w)));
  return g;
}

// How llama.cpp measures its products: the widest of a model of 8 billion weights.
constexpr int64_t kWide = 14336;

// 64 rows in turns over 8 experts. Constant, because random integers would also name experts that do not
// exist.
Graph grouped() {
  Graph g;
  std::vector<int64_t> experts(64);
  for (size_t i = 0; i < experts.size(); ++i) experts[i] = static_cast<int64_t>(i % 8);
  const Value expert = g.constant(Tensor::from_ints(DType::i64, {64}, experts));
  const Value w = g.param("w", DType::f32, {8, 512, 512});
  g.output("y", grouped_matmul(g.input("x", DType::f32, {64, 512}), w, expert));
  return g;
}

constexpr double flops(int64_t m, int64_t k, int64_t n) { return 2.0 * static_cast<double>(m * k * n); }

Graph square(int64_t n) { return product(n, n, n); }
Graph wide_linear(int64_t rows) { return linear(rows, 4096, 4096); }

constexpr double kMatvec = flops(1, 4096, 4096);
constexpr double kWideProduct = flops(1, kWide, 4096);

constexpr Case kCases[] = {
    {"matmul256", "matmul 256 x 256 x 256", [] { return product(256, 256, 256); }, flops(256, 256, 256)},
    {"matmul512", "matmul 512 x 512 x 512", [] { return product(512, 512, 512); }, flops(512, 512, 512)},
    {"matmul1024",
     "matmul 1024 x 1024 x 1024",
     nullptr,
     flops(1024, 1024, 1024),
     {},
     {1024, square, {}, 10, 1000}},
    {"matmul_odd", "matmul 33 x 129 x 257", [] { return product(33, 129, 257); }, flops(33, 129, 257)},
    {"matmul_deep", "matmul 64 x 4096 x 64", [] { return product(64, 4096, 64); }, flops(64, 4096, 64)},
    {"matmul_flat", "matmul 2048 x 64 x 2048", [] { return product(2048, 64, 2048); }, flops(2048, 64, 2048)},
    {"linear512",
     "matmul 512 x 4096 x 4096, b a weight",
     nullptr,
     512 * kMatvec,
     {},
     {512, wide_linear, {}, 1, 1000}},
    {"bert_qkv", "matmul 128 x 768 x 2304, b a weight", [] { return linear(128, 768, 2304); },
     flops(128, 768, 2304)},
    {"bert_up", "matmul 128 x 768 x 3072, b a weight", [] { return linear(128, 768, 3072); },
     flops(128, 768, 3072)},
    {"bert_down", "matmul 128 x 3072 x 768, b a weight", [] { return linear(128, 3072, 768); },
     flops(128, 3072, 768)},
    {"matvec", "matmul 1 x 4096 x 4096", [] { return linear(1, 4096, 4096); }, kMatvec},
    {"matvec_nk", "the same, weight read as [n, k]", matvec_nk, kMatvec},
    {"matvec_q8_0", "the same, weight in q8_0", encoded<DType::q8_0, 1, 4096>, kMatvec},
    {"matvec_q8_1", "the same, weight in q8_1", encoded<DType::q8_1, 1, 4096>, kMatvec},
    {"matvec_q8_k", "the same, weight in q8_k", encoded<DType::q8_k, 1, 4096>, kMatvec},
    {"matvec_q6_k", "the same, weight in q6_k", encoded<DType::q6_k, 1, 4096>, kMatvec},
    {"matvec_q5_k", "the same, weight in q5_k", encoded<DType::q5_k, 1, 4096>, kMatvec},
    {"matvec_q5_0", "the same, weight in q5_0", encoded<DType::q5_0, 1, 4096>, kMatvec},
    {"matvec_q5_1", "the same, weight in q5_1", encoded<DType::q5_1, 1, 4096>, kMatvec},
    {"matvec_q4_k", "the same, weight in q4_k", encoded<DType::q4_k, 1, 4096>, kMatvec},
    {"matvec_q4_0", "the same, weight in q4_0", encoded<DType::q4_0, 1, 4096>, kMatvec},
    {"matvec_q4_1", "the same, weight in q4_1", encoded<DType::q4_1, 1, 4096>, kMatvec},
    {"matvec_q3_k", "the same, weight in q3_k", encoded<DType::q3_k, 1, 4096>, kMatvec},
    {"matvec_q2_k", "the same, weight in q2_k", encoded<DType::q2_k, 1, 4096>, kMatvec},
    {"matvec_iq4_nl", "the same, weight in iq4_nl", encoded<DType::iq4_nl, 1, 4096>, kMatvec},
    {"matvec_iq4_xs", "the same, weight in iq4_xs", encoded<DType::iq4_xs, 1, 4096>, kMatvec},
    {"matvec_iq3_s", "the same, weight in iq3_s", encoded<DType::iq3_s, 1, 4096>, kMatvec},
    {"matvec_iq3_xxs", "the same, weight in iq3_xxs", encoded<DType::iq3_xxs, 1, 4096>, kMatvec},
    {"matvec_iq2_s", "the same, weight in iq2_s", encoded<DType::iq2_s, 1, 4096>, kMatvec},
    {"matvec_iq2_xs", "the same, weight in iq2_xs", encoded<DType::iq2_xs, 1, 4096>, kMatvec},
    {"matvec_iq2_xxs", "the same, weight in iq2_xxs", encoded<DType::iq2_xxs, 1, 4096>, kMatvec},
    {"matvec_iq1_m", "the same, weight in iq1_m", encoded<DType::iq1_m, 1, 4096>, kMatvec},
    {"matvec_iq1_s", "the same, weight in iq1_s", encoded<DType::iq1_s, 1, 4096>, kMatvec},
    {"matvec_mxfp4", "the same, weight in mxfp4", encoded<DType::mxfp4, 1, 4096>, kMatvec},
    {"matvec_nvfp4", "the same, weight in nvfp4", encoded<DType::nvfp4, 1, 4096>, kMatvec},
    {"matvec_tq2_0", "the same, weight in tq2_0", encoded<DType::tq2_0, 1, 4096>, kMatvec},
    {"matvec_tq1_0", "the same, weight in tq1_0", encoded<DType::tq1_0, 1, 4096>, kMatvec},
    {"wide_matvec_f32", "matmul 1 x 14336 x 4096, weight in f32", encoded<DType::f32, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q8_0", "matmul 1 x 14336 x 4096, weight in q8_0", encoded<DType::q8_0, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q6_k", "matmul 1 x 14336 x 4096, weight in q6_k", encoded<DType::q6_k, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q4_k", "matmul 1 x 14336 x 4096, weight in q4_k", encoded<DType::q4_k, 1, kWide>,
     kWideProduct},
    {"wide_matmul_f32", "matmul 512 x 14336 x 4096, weight in f32", encoded<DType::f32, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q8_0", "matmul 512 x 14336 x 4096, weight in q8_0", encoded<DType::q8_0, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q6_k", "matmul 512 x 14336 x 4096, weight in q6_k", encoded<DType::q6_k, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q4_k", "matmul 512 x 14336 x 4096, weight in q4_k", encoded<DType::q4_k, 512, kWide>,
     512 * kWideProduct},
    {"small_m", "matmul 7 x 768 x 3072", [] { return linear(7, 768, 3072); }, flops(7, 768, 3072)},
    {"grouped", "64 rows x 512 x 512, 8 experts", grouped, flops(64, 512, 512)},
};

}  // namespace

std::span<const Case> product_cases() { return kCases; }

}  // namespace rlx::measure
