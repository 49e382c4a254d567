// Ops that are made of others, and of nothing else: a function on values, with a name and attributes, so that
// graph texts and `rlx ops` know it. Calling the C++ function gives its nodes at once.
#pragma once

#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"

namespace rlx {

// The error without the names of inner nodes, and with that of the op.
Error composite_error(const Error& e, std::string_view op);

// Self has `kLeast` to `kMost` inputs, and
//   std::vector<Value> make(Graph& graph, const std::vector<Value>& inputs) const;   inputs that are not
//   given are empty
template <class Self>
struct Composite : OpOf<Self> {
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(Self::kLeast, Self::kMost);
    Graph graph;
    std::vector<TensorType> types;
    for (const Value& v : made_in(graph, in.count(), [&](int64_t i) -> std::optional<TensorType> {
           return in.has(i) ? std::optional(in[i]) : std::nullopt;
         }))
      types.push_back(graph.type(v.id()));
    return types;
  }

  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    std::vector<Value> inputs = in.inputs;
    return made(in.graph, std::move(inputs));
  }

  // What the references of its nodes give.
  void reference(RefContext& r) const override {
    Graph graph;
    NamedTensors leaves;
    const std::vector<Value> made =
        made_in(graph, r.input_count(), [&](int64_t i) -> std::optional<TensorType> {
          const RefTensor* t = r.optional_in(i);
          if (!t) return std::nullopt;
          leaves.emplace(leaf_name(i), t->to_tensor());
          return TensorType{t->dtype, Shape(t->dims)};
        });
    for (size_t i = 0; i < made.size(); ++i) graph.output(formatted("y{}", i), made[i]);
    std::map<std::string, RefTensor> outputs = run_reference(graph, leaves);
    for (size_t i = 0; i < made.size(); ++i)
      r.out(static_cast<int64_t>(i)) = std::move(outputs.at(formatted("y{}", i)));
  }

 protected:
  static constexpr int64_t kMany = 1 << 20;  // no limit

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
  static std::string leaf_name(int64_t i) { return formatted("x{}", i); }

  template <class TypeOf>
  std::vector<Value> made_in(Graph& graph, int64_t count, const TypeOf& type_of) const {
    std::vector<Value> inputs;
    for (int64_t i = 0; i < count; ++i) {
      const std::optional<TensorType> type = type_of(i);
      inputs.push_back(type ? graph.input(leaf_name(i), type->dtype, type->shape) : Value());
    }
    return made(graph, std::move(inputs));
  }

  // Errors name the op, not nodes that nobody wrote.
  std::vector<Value> made(Graph& graph, std::vector<Value> inputs) const {
    inputs.resize(std::max<size_t>(inputs.size(), Self::kMost < kMany ? Self::kMost : 0));
    try {
      return self().make(graph, inputs);
    } catch (const Error& e) {
      throw composite_error(e, Self::kName);
    }
  }
};

}  // namespace rlx
