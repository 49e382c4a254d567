// Decides where a view needs its own memory: before a consumer that cannot read its strides or its encoding,
// where strides cannot express it at all, and for outputs, which are read back as plain bytes.
#include "ir/load_phase.h"
#include "ir/subgraphs.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/contiguous.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

struct Placed {
  View view;
  DType dtype;        // as stored: of the leaf, if it is a view of an encoded one
  bool leaf = false;  // lies in the memory of an input, param, constant or state
};

class Materializer {
 public:
  // Decides for the values of these nodes only, by their sizes in `sizes`, the same graph with `values` for
  // symbols.
  Materializer(const Graph& graph, const Graph& sizes, const SymbolValues& values,
               const SymbolValues& capacities, std::vector<bool> nodes)
      : rewriter_(graph),
        sizes_(sizes),
        values_(values),
        capacities_(capacities),
        decides_(std::move(nodes)) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    for (int32_t id = 0; id < g.size(); ++id) node(id);
    for (const Graph::Output& out : g.outputs()) {
      if (!decides(out.value)) continue;
      const Placed& p = placed_.at(out.value);
      const auto aligned = [&] {
        return p.view.offset * static_cast<int64_t>(device_bytes(p.dtype)) % 4 == 0;
      };
      if (p.leaf || !p.view.is_contiguous() || !aligned()) rewriter_.map(out.value, contiguous(out.value));
    }
    return rewriter_.finish();
  }

 private:
  static bool reads(const Op& op, int64_t input, const Placed& p) {
    return op.reads_view(input, p.view) && (!is_encoded(p.dtype) || op.reads_encoded(input, p.dtype, p.view));
  }

  // A view that reads the bits of values as another type needs the values of an encoded leaf.
  static bool sees_through(const Node& view, const Placed& source) {
    return !is_encoded(source.dtype) || view.outputs[0].dtype == value_dtype(source.dtype);
  }

  bool decides(ValueId v) const { return decides_[static_cast<size_t>(v.node)]; }

  void node(int32_t id) {
    const Node& n = sizes_.node(id);
    const OpPtr& op = rewriter_.source().node(id).op;
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      const bool readable = v.is_absent() || !decides(v) ||
                            (n.op->has(Trait::view) ? sees_through(n, placed_.at(v))
                                                    : reads(*n.op, static_cast<int64_t>(i), placed_.at(v)));
      inputs.push_back(readable ? rewriter_.mapped(v) : contiguous(v));
    }
    if (!decides({id, 0})) {
      rewriter_.replace(id, op, std::move(inputs));
      return;
    }
    if (n.op->has(Trait::view)) {
      const std::vector<int64_t> dims = n.outputs[0].shape.values();
      const Placed& source = placed_.at(n.inputs[0]);
      auto view = sees_through(n, source) ? n.op->view(source.view, dims) : std::nullopt;
      if (view) {
        const DType dtype = is_encoded(source.dtype) ? source.dtype : n.outputs[0].dtype;
        placed_[{id, 0}] = {*view, dtype, source.leaf};
      } else {
        inputs[0] = contiguous(n.inputs[0]);
        const auto dense = n.op->view(View::contiguous(source.view.dims), dims);
        check(dense.has_value(), "a view of contiguous memory can be expressed");
        placed_[{id, 0}] = {*dense, n.outputs[0].dtype, false};
      }
    } else {
      for (size_t o = 0; o < n.outputs.size(); ++o) {
        placed_[{id, static_cast<int32_t>(o)}] = {
            own_view(id, o), n.outputs[o].dtype,
            n.op->is_leaf() || n.op->overwrites(static_cast<int64_t>(o))};
      }
    }
    const auto in_body = [&](const Graph& body) { return materialize_views(body, values_, capacities_); };
    rewriter_.replace(id, map_subgraphs(op, in_body), std::move(inputs));
  }

  View own_view(int32_t id, size_t output) const {
    const Node& n = rewriter_.source().node(id);
    const std::vector<int64_t> dims = sizes_.node(id).outputs[output].shape.values();
    if (!n.op->run_size(input_types(rewriter_.source(), n))) return View::contiguous(dims);
    View view = View::contiguous(n.outputs[output].shape.bind(capacities_).values());
    view.dims = dims;
    return view;
  }

  ValueId contiguous(ValueId v) {
    const auto [it, fresh] = copies_.emplace(v, ValueId{});
    if (fresh) {
      it->second = rewriter_.target().add(std::make_shared<Contiguous>(), {rewriter_.mapped(v)},
                                          rewriter_.source().producer(v).name + ".copy");
    }
    return it->second;
  }

  Rewriter rewriter_;
  const Graph& sizes_;
  const SymbolValues& values_;
  const SymbolValues& capacities_;
  std::vector<bool> decides_;
  std::map<ValueId, Placed> placed_;
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Graph materialize_views(const Graph& graph, const SymbolValues& sizes, const SymbolValues& capacities) {
  const std::vector<bool> all(static_cast<size_t>(graph.size()), true);
  return Materializer(graph, bind_symbols(graph, sizes), sizes, capacities, all).run();
}

Graph materialize_weights(const Graph& graph) {
  return Materializer(graph, graph, {}, {}, in_load_phase(graph)).run();
}

}  // namespace rlx
