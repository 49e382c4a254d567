// Products: y[batch, row, col] = epilogue(sum over k of a[batch, row, k] * b[batch, col, k]), where a and b
// are loaded, and y is stored, in any of several ways. Matrix products, convolutions, products with quantised
// weights and with weights chosen by a table are all of this form.
//
// The kernel of a product is put together from a tile loop (loop_*.h), a load for a and one for b (load_*.h)
// and a store (store_*.h). Each is one file with its WGSL and the host's side of it; every loop works with
// every load and store. What their WGSL provides and may call: docs/products.md.
#pragma once

#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "kernels/variant.h"
#include "ops/elementwise/expr.h"
#include "ops/products/grouped.h"

namespace rlx::products {

// The part of a product that one dispatch computes. A line is a row of a or a column of b.
struct Region {
  Extent batch, rows, cols, k;

  // Whether it is less than all of y.
  bool is_part(int64_t batches, int64_t m, int64_t n) const {
    return batch.length() < batches || rows.length() < m || cols.length() < n;
  }
};
struct Lines {
  Extent batch, lines, k;

  bool is_part(int64_t batches, int64_t line_count, int64_t depth) const {
    return batch.length() < batches || lines.length() < line_count || k.length() < depth;
  }
};

// How a tile loop reads an operand: single elements, four along k, or four lines at a time.
enum class Access : uint8_t { one, four_k, four_lines };

// What a load or a store adds to the kernel.
struct Binding {
  OperandList operands;         // for its `//@ in` and `//@ out` lines, in order
  std::vector<uint32_t> words;  // for its `//@ param` lines
  SpecList specs;               // named as in its text
};

// One spatial axis of the windows of a convolution.
struct WindowAxis {
  int64_t in = 1, out = 1, kernel = 1;
  int64_t stride = 1, dilation = 1, pad = 0;  // pad: before the first element
};

class Load;
using LoadPtr = std::shared_ptr<const Load>;

// How an operand is loaded.
class Load {
 public:
  virtual ~Load() = default;
  virtual std::string_view name() const = 0;
  // Loads with the same id have the same text.
  virtual std::string id() const { return std::string(name()); }
  // With `x` in place of the operand's name.
  virtual std::string wgsl() const = 0;
  // Whether it reads four elements in about the time of one.
  virtual bool offers(Access access) const = 0;
  // Whether neighbours along k are closer in memory than neighbouring lines.
  virtual bool along_k() const = 0;
  // k can be cut at multiples of this. If it is not 1, it is the length of a run.
  virtual int64_t grain() const { return 1; }
  // Only the elements that these lines need have to be bound.
  virtual Binding bind(Access access, const Lines& lines) const = 0;
  virtual DType dtype() const = 0;
  // The axes of the windows of a single channel that the lines are: what a window shares with its neighbours
  // can then be read once. Null for all others.
  virtual const std::array<WindowAxis, 3>* windows() const { return nullptr; }
  // Whether neighbouring batches are closer in memory than neighbouring lines.
  virtual bool along_batch() const { return false; }
  // The same bytes as words of four neighbours along k each; null if they do not lie like that.
  virtual LoadPtr in_words() const { return nullptr; }
  // All of the operand in its groups of axes, if it is one view of elements: then it can also be copied.
  virtual const Grouped* whole() const { return nullptr; }
};

// How the result is stored.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string_view name() const = 0;
  virtual std::string id() const { return std::string(name()); }
  virtual std::string wgsl() const = 0;
  // Whether four neighbouring columns, the first a multiple of four, are stored at once.
  virtual bool offers_four() const = 0;
  virtual Binding bind(bool four, const Region& region) const = 0;
  virtual DType dtype() const = 0;
  // All of y in its groups of axes, if it is one operand: then the epilogue can also be computed apart.
  virtual const Grouped* whole() const { return nullptr; }
};
using StorePtr = std::shared_ptr<const Store>;

struct Sizes {
  int64_t batch = 1, m = 0, n = 0, k = 0;
};

struct Product {
  Sizes size;
  LoadPtr a, b;
  StorePtr y;
  std::vector<Grouped> extra;  // of the epilogue, in y's groups of axes
  Expr expr;                   // $0 is the product, of type expr.inputs[0]; no steps: the product is stored
  int64_t run = 0;             // k is walked in runs of this length, which divides it; 0: one run, or groups
  int64_t k_parts = 1;         // sums over parts of k, each stored as batches of its own; no epilogue
  Region region = {};          // what is computed: all of it unless the product is cut
  std::optional<DType> fours;  // i8 or u8: a and b are words with four of them, and k counts words
  // Factors are rounded to f16, those of each line multiplied by 2^exponent before, so that they fit:
  // i32[batch, lines] of lines that are no f16 anyway, which need none.
  bool may_round = false;  // if the precision allows it: the op is one of which verification knows that
  bool halved = false;
  bool half_sums = false;  // and sums are of f16: every line has an exponent then
  Operand a_exponents = {}, b_exponents = {};

  // All ops with products share what is measured.
  static constexpr std::string_view kFamily = "product";
  std::string key() const;
  DType mul_type() const;  // of the factors: that of sums, or u32 for words with four bytes
  DType sum_type() const;  // f32 for floats, i32 or u32 for integers
  // How many sums there are in all of it, without those of parts of k.
  double results() const;
  int64_t rows() const { return region.rows.length(); }
  // As many rows for each tile, of at most this many, as make tiles equal: none go to waste.
  int64_t even_rows(int64_t most) const;
  // By how much tiles of this size exceed the results.
  double padding(int64_t tile_rows, int64_t tile_cols) const;
  // Fours along k that do not reach into the next run.
  bool fours_of_k() const { return run % 4 == 0 && region.k.begin % 4 == 0; }
  bool reads_four_k(const Load& load) const { return load.offers(Access::four_k) && fours_of_k(); }
  // How loops read four neighbouring columns of b: along k, if they lie that way, or side by side.
  Access columns_access() const;
  int64_t grain() const { return std::lcm(a->grain(), b->grain()); }
};

// The number of workgroups and the constants with which a tile loop is launched.
struct Launch {
  std::string_view name;
  std::string_view wgsl;
  std::string_view id = {};  // what the text depends on besides the name
  Access a = Access::one, b = Access::one;
  bool four_columns = false;  // stores four columns at a time where it can
  int64_t tile_rows = 1, tile_cols = 1;
  int64_t tiles_per_group = 1;
  // For loops whose tiles are no equal parts of the columns: how many there are along n, and how many
  // workgroups make all of them.
  int64_t n_tiles = 0, groups = 0;
  SpecList specs = {};
};
Dispatch make_dispatch(const Lowering& l, const Product& p, const Launch& launch);

// A tile loop is a row of the table of kernels that all product ops share.
using Loop = Variant<Product, Dispatch>;
std::span<const Loop> loops();
// The one of them for products with rounded factors.
std::span<const Loop> rounding_loop();
// For OpInfo::variants: the loops that any load can serve, and the forms that any product may
// have, kSplitK and kTransposed.
std::vector<std::string> variant_names();
// The loop for windows of single channels.
inline constexpr std::string_view kSlide = "slide";
inline constexpr std::string_view kTaps = "taps";
// The loop on matrix units.
inline constexpr std::string_view kMatrix = "matrix";
// The loop for encoded weights alone.
inline constexpr std::string_view kEighths = "eighths";

// Forms of a product (Candidate::form), for which loops are chosen together with the form.
// Sums over parts of k at the same time, then their sum: for products with few results.
inline constexpr std::string_view kSplitK = "split_k";
inline constexpr std::string_view kParts = "PARTS";  // how many
// y^T = b^T a^T: for products with few columns.
inline constexpr std::string_view kTransposed = "transposed";
// b copied into panels first, on a CPU: for products with many rows.
inline constexpr std::string_view kPaneled = "paneled";
// For ops that multiply bytes: four at once, by WGSL's dot4I8Packed and dot4U8Packed.
inline constexpr std::string_view kDot4 = "dot4";

// With factors that are rounded to f16, on matrix units, where the precision allows it (halves.cpp).
inline constexpr std::string_view kHalved = "halved";
// How many bits the sums of matrix units have (a constant of candidates), and how many products are summed in
// f16 before an f32 takes them over.
inline constexpr std::string_view kSums = "SUMS";
inline constexpr int64_t kHalfSums = 128;

// All forms but the product as it is; and of these the ones with rounded factors, which any store can have.
std::vector<Form<Product>> other_forms(const Target& target, const Product& p);
std::vector<Form<Product>> rounded_forms(const Target& target, const Product& p);
// The product, all of it, in a form; where that no longer fits it, as it is. Parts of k are up to the caller.
Product in_form(Product p, std::string_view form);

// Where sizes vary, with sizes that stand for many: a loop is chosen for all of them, so that few shaders
// serve every length.
Product typical(const Target& target, Product p);

// The time at `share` of the device's speed, but no less than reading a and b and writing y takes.
double estimate_ns(const Rates& r, const Product& p, Share share);

// What the product is predicted to take with a candidate. Estimates rank loops: what all of them do, or what
// only one loop is good at, they leave out or only order.
double predicted_ns(const Rates& r, const Product& p, const Candidate& c);

// Whether regions of the product can be bound as they are, without cutting sums or taking the epilogue apart.
bool can_bind(Lowering& l, std::string_view op, Product p);

// Emits those regions; false, and nothing emitted, if they cannot be bound.
bool lower_bound(Lowering& l, std::string_view op, Product p);

// Emits the product, cut into regions that the device can bind. `op` is the op whose kernels may be forced.
void lower(Lowering& l, std::string_view op, Product p);

}  // namespace rlx::products
