// What an op sees while it lowers: its operands, the device's limits, and a place for dispatches.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/fail.h"
#include "ir/leaf.h"
#include "kernels/dispatch.h"
#include "kernels/target.h"
#include "kernels/variant.h"
#include "rlx/tensor.h"

namespace rlx {

// A piece of device memory that the plan places: what one node makes, or a leaf.
struct Storage {
  std::optional<LeafKind> leaf = {};  // nothing: an intermediate
  int64_t bytes = 0;
  int32_t node = -1;
  std::shared_ptr<const Tensor> table = {};  // its contents, if it is a table (Lowering::table)

  bool overflow = false;  // the words of all nodes (Lowering::overflow)

  bool is_intermediate() const { return !leaf && !table && !overflow; }
};

inline int64_t storage_bytes(DType dtype, int64_t elements) {
  // Padded, since kernels read and write whole vec4s and words.
  return round_up(std::max<int64_t>(device_bytes_of(dtype, elements), 1), 16);
}

// Gives storages for scratch memory: new ones, or first those that were given before, one after the other.
class Scratch {
 public:
  // `overflow` is Program::overflow.
  explicit Scratch(std::vector<Storage>& storages, int32_t& overflow,
                   const std::vector<int32_t>* reused = nullptr)
      : storages_(storages), overflow_(overflow), reused_(reused) {}

  int32_t take(int64_t bytes, int32_t node);
  // What was taken so far, and with how many bytes.
  const InlineVector<int32_t, 4>& taken() const { return taken_; }
  const InlineVector<int64_t, 4>& bytes() const { return bytes_; }
  std::vector<Storage>& storages() { return storages_; }
  int32_t overflow();  // a storage that is made when it is first needed

 private:
  std::vector<Storage>& storages_;
  int32_t& overflow_;
  const std::vector<int32_t>* reused_;
  InlineVector<int32_t, 4> taken_;
  InlineVector<int64_t, 4> bytes_;
};

class Lowering {
 public:
  Lowering(const Target& target, int32_t node, OperandList inputs, OperandList outputs, Scratch& scratch,
           std::vector<Dispatch>& dispatches)
      : target_(target),
        caps_(target.caps),
        node_(node),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        scratch_(scratch),
        dispatches_(dispatches) {}

  const Target& target() const { return target_; }
  const Caps& caps() const { return caps_; }
  int64_t input_count() const { return static_cast<int64_t>(inputs_.size()); }
  // Input i, which may be an absent operand; an error beyond the last input that is given.
  const Operand& in(int64_t i) const {
    check(i >= 0 && i < input_count(), "an op lowers inputs that are given");
    return inputs_[static_cast<size_t>(i)];
  }
  // An absent operand if the input is not given.
  Operand optional_in(int64_t i) const { return i < input_count() ? in(i) : Operand{}; }
  const Operand& out(int64_t i = 0) const { return outputs_[static_cast<size_t>(i)]; }
  const OperandList& inputs() const { return inputs_; }

  // Memory for this node only.
  Operand scratch(DType dtype, Dims dims);

  // Constants that the kernel needs besides its inputs (twiddle factors, code books), uploaded with the plan.
  // Equal tables of a program are stored once.
  Operand table(const Tensor& values);

  // Where a kernel reports that a result needs more bits than the device has for its type: a word of this
  // node that becomes 1, and then the run fails. Present for i64, which has 32 bits; others wrap as they
  // should. Kernels compute with the functions of lib/math/i64.wgsl if it is.
  Operand overflow(DType dtype);

  // A dispatch of kernel K with named operands and parameters; emit it, or let split() try sizes.
  template <class K>
  Dispatch make(const typename K::Operands& operands, const typename K::Params& params, int64_t groups,
                const typename K::Spec& spec = {}) const {
    return make(K::kernel(), operands.list(), std::as_bytes(std::span(&params, 1)), groups, spec.list());
  }
  Dispatch make(KernelPtr kernel, OperandList operands, std::span<const std::byte> params, int64_t groups,
                SpecList specs = {}) const;

  // Adds the dispatch; an error with the numbers if the device cannot bind it.
  void emit(Dispatch dispatch);

  // Emits make_part(begin, length) for parts that cover [0, extent): the whole if it can be bound, else
  // pieces whose length is a multiple of `grain`, as long as the device allows.
  using PartMaker = std::function<Dispatch(int64_t begin, int64_t length)>;
  void split(int64_t extent, int64_t grain, const PartMaker& make_part);

  // For kernels that use lib/flat. The first two words of `params` are filled in here. Contiguous operands
  // with as many elements as the output are bound in step with it if the kernel reads them by x_at(i) or
  // x_flat(i) only, where i is the parameter of its element(i). A kernel with owns(i) also takes the operands
  // for which it asks x_has(p) in pieces.
  template <class K>
  void flat(const typename K::Operands& operands, typename K::Params params,
            const typename K::Spec& spec = {}) {
    flat(make<K>(operands, params, 0, spec));
  }
  void flat(Dispatch whole);

  // For kernels that use each: fills in the first two words of `params`. False, and nothing emitted, if the
  // device cannot bind the operands.
  template <class K>
  bool each(const typename K::Operands& operands, typename K::Params params, int64_t pieces,
            const typename K::Spec& spec = {}) {
    return each(make<K>(operands, params, 0, spec), pieces);
  }
  bool each(Dispatch whole, int64_t pieces);

  // For kernels with rows: fills in the first two words of `params`, the first row and the one after the
  // last. A workgroup computes `rows_per_group` rows. Operands with outer_rank > 0 have their rows along the
  // outer axes. False, and nothing emitted, if the device cannot bind `rows_per_group` rows.
  bool rows(const Dispatch& whole, int64_t row_count, int64_t rows_per_group);

  // The row of the table and the constants to use for this problem, or the constants for a given row. A part
  // of a problem is a problem too.
  template <class Problem, class Made, size_t N>
  Choice<Problem, Made> choose(std::string_view op, const Variant<Problem, Made> (&table)[N],
                               const Problem& problem) const {
    return rlx::choose(target_, op, std::span<const Variant<Problem, Made>>(table), problem);
  }
  template <class Problem, class Made>
  Choice<Problem, Made> choose(std::string_view op, const Variant<Problem, Made>& row,
                               const Problem& problem) const {
    return rlx::choose(target_, op, std::span(&row, 1), problem, no_other_forms<Problem>, /*part=*/true);
  }

  // What of a table is making dispatches, a candidate without a name if nothing is.
  const Candidate& label() const { return variant_; }
  // While it lives, dispatches are labelled with this candidate. Of several that live, the first that has an
  // estimate is the choice that is told of them: it covers what is chosen within it.
  class Label {
   public:
    Label(Lowering& l, const Candidate& c)
        : l_(l), before_(std::exchange(l.variant_, c)), choice_before_(l.choice_) {
      if (l.choice_ >= 0 || c.predicted_ns() <= 0) return;
      l.choice_ = l.choices_++;
      l.choice_ns_ = c.predicted_ns();
    }
    ~Label() {
      l_.variant_ = before_;
      l_.choice_ = choice_before_;
    }
    Label(const Label&) = delete;
    Label& operator=(const Label&) = delete;

   private:
    Lowering& l_;
    Candidate before_;
    int32_t choice_before_;
  };

 private:
  void split_windows(Dispatch dispatch);
  std::vector<Dispatch> parts(int64_t extent, int64_t grain, const PartMaker& make_part) const;

  const Target& target_;
  const Caps& caps_;
  int32_t node_;
  Candidate variant_;  // what label() returns
  int32_t choice_ = -1;
  int32_t choices_ = 0;  // so far
  double choice_ns_ = 0;
  OperandList inputs_;
  OperandList outputs_;
  Scratch& scratch_;
  std::vector<Dispatch>& dispatches_;
};

template <class Problem, class Made>
Made Choice<Problem, Made>::make(Lowering& l, const Problem& problem) const {
  const Lowering::Label label(l, candidate);
  return row->make(l, problem, candidate);
}

// Where the rows [begin, begin + length) of an operand with rows along its outer axes can lie.
View::Range rows_window(const Operand& o, int64_t begin, int64_t length);

// Lets an output take the memory of an input with the same layout, for kernels in which the invocation that
// writes an element is the only one that reads it, and reads it first.
void allow_in_place(Dispatch& d);

}  // namespace rlx
