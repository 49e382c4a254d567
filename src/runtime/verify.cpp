#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "ir/states.h"
#include "ir/tolerance.h"
#include "rlx/diagnostics.h"

namespace rlx {
namespace {

// Whether it read the contents of a state that were overwritten since: the memory holds something else after
// the run.
bool reads_overwritten(const Node& n, const StateVersions& states) {
  return std::ranges::any_of(n.inputs, [&](ValueId v) { return states.writer(v) >= 0; });
}

void add_element(NodeCheck& check, int64_t index, double got, double want, DType dtype,
                 const Tolerance& tolerance) {
  const Closeness closeness = compare(got, want, dtype, tolerance);
  if (std::isfinite(got) && std::isfinite(want))
    check.max_error = std::max(check.max_error, std::fabs(got - want));
  if (closeness.close) return;
  if (check.wrong++ == 0) {
    check.index = index;
    check.got = got;
    check.want = want;
    check.allowed = closeness.allowed;
  }
}

void compare_output(NodeCheck& check, const Tensor& got, const RefTensor& want, const Tolerance& tolerance) {
  if (got.dtype() == DType::c64) {
    for (int64_t i = 0; i < got.elements(); ++i) {
      const std::complex<double> w = want.complex[static_cast<size_t>(i)];
      Tolerance t = tolerance;
      t.scale = std::max(t.scale, std::abs(w));
      add_element(check, i, got.complex(i).real(), w.real(), DType::f32, t);
      add_element(check, i, got.complex(i).imag(), w.imag(), DType::f32, t);
    }
  } else if (is_float(got.dtype())) {
    for (int64_t i = 0; i < got.elements(); ++i) {
      add_element(check, i, got.real(i), want.real[static_cast<size_t>(i)], got.dtype(), tolerance);
    }
  } else {
    for (int64_t i = 0; i < got.elements(); ++i) {
      const int64_t w = want.ints[static_cast<size_t>(i)];
      if (got.integer(i) == w) continue;
      add_element(check, i, static_cast<double>(got.integer(i)), static_cast<double>(w), DType::f32,
                  {.ulps = 0});
    }
  }
}

NodeCheck check_node(const Executable& exe, const Graph& graph, int32_t id) {
  const Node& n = graph.node(id);
  std::vector<RefTensor> inputs;
  std::vector<const RefTensor*> pointers;
  std::vector<TensorType> types;
  for (ValueId v : n.inputs) {
    inputs.push_back(v.is_absent() ? RefTensor{}
                                   : RefTensor::from(exe.value(graph.producer(v).name, v.output)));
    types.push_back(v.is_absent() ? TensorType{} : graph.type(v));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    pointers.push_back(n.inputs[i].is_absent() ? nullptr : &inputs[i]);
  const std::vector<RefTensor> want = run_reference(n, pointers);
  const Tolerance tolerance = n.op->tolerance(types);
  NodeCheck check{.node = n.name, .op = std::string(n.op->name()), .type = n.outputs[0].text()};
  for (size_t o = 0; o < want.size(); ++o) {
    compare_output(check, exe.value(n.name, static_cast<int32_t>(o)), want[o], tolerance);
  }
  return check;
}

}  // namespace

std::vector<NodeCheck> verify_nodes(Executable& exe, const std::function<void(int64_t nodes_done)>& done) {
  const std::shared_ptr<const Graph> kept = exe.graph();
  const Graph& graph = *kept;
  if (const auto symbols = graph.symbols(); !symbols.empty()) {
    fail(ErrorKind::invalid_argument,
         "the graph '{}' has the symbol '{}'; bind it when compiling to verify a run", graph.name,
         *symbols.begin());
  }
  const StateVersions states(graph);
  std::vector<NodeCheck> checks;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.op->is_leaf()) {
      if (reads_overwritten(n, states)) {
        checks.push_back(
            {.node = n.name, .op = std::string(n.op->name()), .type = n.outputs[0].text(), .skipped = true});
      } else {
        checks.push_back(check_node(exe, graph, id));
      }
    }
    if (done) done(id + 1);
  }
  return checks;
}

}  // namespace rlx
