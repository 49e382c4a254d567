// Ops that are made of others, and of nothing else: a function on values, with a name and attributes, so that
// graph texts and `rlx ops` know it. Calling the C++ function gives its nodes at once.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"

namespace rlx {

class CompositeOp : public TableOp {
 public:
  std::vector<TensorType> infer(const InferArgs& in) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  // What the references of its nodes give.
  void reference(RefContext& r) const override;
  bool expands() const override { return true; }

 protected:
  static constexpr int64_t kMany = 1 << 20;  // no limit

 private:
  struct Count {
    int64_t least = 0, most = 0;
  };
  virtual Count input_count() const = 0;
  virtual std::vector<Value> nodes(Graph& graph, const std::vector<Value>& inputs) const = 0;

  template <class TypeOf>
  std::vector<Value> made_in(Graph& graph, int64_t count, const TypeOf& type_of) const;
  // Errors name the op, not nodes that nobody wrote.
  std::vector<Value> made(Graph& graph, std::vector<Value> inputs) const;

  template <class Self>
  friend struct Composite;
};

// Self has `kName`, `kLeast` to `kMost` inputs, and
//   std::vector<Value> make(Graph& graph, const std::vector<Value>& inputs) const;   inputs that are not
//   given are empty
template <class Self>
struct Composite : CompositeOp {
  std::string_view name() const override { return Self::kName; }
  std::shared_ptr<Op> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }

 private:
  Count input_count() const override { return {Self::kLeast, Self::kMost}; }
  std::vector<Value> nodes(Graph& graph, const std::vector<Value>& inputs) const override {
    return static_cast<const Self&>(*this).make(graph, inputs);
  }
};

// What the table says about one; samples are written without the name of the op.
struct CompositeLines {
  std::string_view operands;
  std::string_view attributes = "";
  std::string_view outputs = "y: the result";
};
OpInfo composite_info(std::string_view op, std::string_view formula, const CompositeLines& lines,
                      std::string_view types, std::initializer_list<std::string_view> samples);
inline constexpr std::string_view kAnyType = "f32 f16 bf16 i32 u32 i64 i8 u8";
inline constexpr std::string_view kFloatTypes = "f32 f16 bf16";

template <class T>
void add_composite(OpTable& table, std::string_view formula, const CompositeLines& lines,
                   std::string_view types, std::initializer_list<std::string_view> samples) {
  table.add<T>(composite_info(T::kName, formula, lines, types, samples));
}

}  // namespace rlx
