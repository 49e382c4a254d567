// The outputs of a run against the reference of the graph as written, with a measured bound: how far the
// reference itself moves when every node is as inexact as it may be.
#include <algorithm>
#include <cmath>

#include "base/border.h"
#include "base/format.h"
#include "ir/evaluate.h"
#include "ir/tolerance.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "rlx/diagnostics.h"
#include "runtime/trial.h"

namespace rlx {
namespace {

using Outputs = std::map<std::string, RefTensor>;

// Whether some float becomes a decision or a step, so that a small error can cause a large one.
bool has_decisions(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& n) {
    const auto* e = op_cast<Elementwise>(*n.op);
    if (e && (e->fn->name == "floor" || e->fn->name == "ceil" || e->fn->name == "round" ||
              e->fn->name == "trunc" || e->fn->name == "sign"))
      return true;
    const auto real = [](const TensorType& t) {
      return is_float(value_dtype(t.dtype)) || t.dtype == DType::c64;
    };
    return !n.op->is_leaf() && !std::ranges::all_of(n.outputs, real) &&
           std::ranges::any_of(n.inputs, [&](ValueId v) { return !v.is_absent() && real(graph.type(v)); });
  });
}

void note_wrong(OutputCheck& check, size_t index, double got, double want, double allowed) {
  if (check.wrong++ > 0) return;
  check.index = static_cast<int64_t>(index);
  check.got = got;
  check.want = want;
  check.allowed = allowed;
}

void check_numbers(OutputCheck& check, const Tensor& got, const RefTensor& want,
                   const std::vector<const RefTensor*>& trials, bool decisions) {
  const std::vector<double> wanted = numbers(want);
  const std::vector<double> found = numbers(RefTensor::from(got));
  const Movement moved(wanted, trials, decisions);
  const DType type = want.dtype == DType::c64 ? DType::f32 : want.dtype;
  const size_t parts = want.dtype == DType::c64 ? 2 : 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (moved.unclear(i)) {
      ++check.unclear;
      continue;
    }
    const Closeness c = compare(found[i], wanted[i], type, moved.tolerance(i));
    if (std::isfinite(found[i]) && std::isfinite(wanted[i]))
      check.max_error = std::max(check.max_error, std::fabs(found[i] - wanted[i]));
    if (!c.close) note_wrong(check, i / parts, found[i], wanted[i], c.allowed);
  }
}

void check_integers(OutputCheck& check, const Tensor& got, const RefTensor& want,
                    const std::vector<const RefTensor*>& trials) {
  int64_t moved = 0;
  for (size_t i = 0; i < want.ints.size(); ++i) {
    const auto found = got.integer(static_cast<int64_t>(i));
    const int64_t wanted = want.ints[i];
    if (std::ranges::any_of(trials, [&](const RefTensor* t) { return t->ints[i] != want.ints[i]; })) {
      ++moved;
      ++check.unclear;
    } else if (found != wanted) {
      check.max_error = std::max(check.max_error, std::fabs(static_cast<double>(found - wanted)));
      note_wrong(check, i, static_cast<double>(found), static_cast<double>(wanted), 0);
    }
  }
  // Where some elements are undecided, others that the trials missed are too.
  if (check.wrong <= moved) {
    check.unclear += check.wrong;
    check.wrong = 0;
    check.index = -1;
  }
}

OutputCheck check_output(const std::string& name, const Tensor& got, const Outputs& want,
                         const std::vector<Outputs>& trials, bool decisions) {
  const RefTensor& wanted = want.at(name);
  OutputCheck check{.output = name, .type = got.type_text()};
  std::vector<const RefTensor*> tried;
  for (const Outputs& t : trials) tried.push_back(&t.at(name));
  // A counted output may have a different length when its count is undecided.
  if (std::ranges::any_of(tried, [&](const RefTensor* t) { return t->dims != wanted.dims; })) {
    check.unclear = got.elements();
  } else if (got.shape() != wanted.dims) {
    check.wrong = std::max<int64_t>(got.elements(), 1);
  } else if (is_float(wanted.dtype) || wanted.dtype == DType::c64) {
    check_numbers(check, got, wanted, tried, decisions);
  } else {
    check_integers(check, got, wanted, tried);
  }
  return check;
}

}  // namespace

std::vector<OutputCheck> verify_outputs(const Graph& written, const NamedTensors& leaves,
                                        const NamedTensors& outputs,
                                        const std::function<void(int64_t nodes_done, int64_t nodes)>& done,
                                        Precision precision) try {
  const Graph graph = inline_calls(written);  // the nodes in a body are as inexact as others
  const bool decisions = has_decisions(graph);
  // A decision may go either way: with more trials, the other way is missed less often.
  const uint32_t trial_count = decisions ? 8 : 2;
  int64_t before = 0;
  const int64_t all = graph.size() * (1 + int64_t{trial_count});
  const auto progress = [&](int64_t nodes) {
    if (done) done(before + nodes, all);
  };
  const Outputs want = run_reference(graph, leaves, progress);
  std::vector<Outputs> trials;
  for (uint32_t seed = 1; seed <= trial_count; ++seed) {
    before += graph.size();
    Trial trial(seed, precision);
    trials.push_back(evaluate(
        graph, leaves,
        [&](const Node& n, const std::vector<const RefTensor*>& inputs) { return trial.run(n, inputs); },
        progress));
  }
  std::vector<OutputCheck> checks;
  for (const Graph::Output& out : graph.outputs()) {
    const auto got = outputs.find(out.name);
    if (got == outputs.end())
      fail(ErrorKind::invalid_argument, "the output '{}' of the run was not given", out.name);
    checks.push_back(check_output(out.name, got->second, want, trials, decisions));
  }
  return checks;
} catch (...) {
  throw_as_error("verifying outputs");
}

std::string to_text(const OutputCheck& c) {
  if (c.wrong == 0) return formatted("output '{}' agrees with the reference", c.output);
  if (c.index < 0)
    return formatted("output '{}' is wrong: {} is not the shape of the reference", c.output, c.type);
  return formatted(
      "output '{}' is wrong: element {} of {} is {:.9g} instead of {:.9g}, allowed error {:.3g} ({} elements "
      "are "
      "wrong)",
      c.output, c.index, c.type, c.got, c.want, c.allowed, c.wrong);
}

}  // namespace rlx
