// Reading ONNX models.
//
//   rlx::onnx::Model model = rlx::onnx::load("model.onnx");
//   rlx::Executable exe = rlx::compile(model.graph);
//   exe.set_params(model.weights);
//   auto outputs = exe.run({{"input", image}});
//
// Opsets 1 to 26 of ONNX's own ops and those of com.microsoft that exporters write (docs/onnx.md,
// docs/onnx-coverage.md). Symbolic dimensions (dim_param) become symbols of the graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rlx/export.h"
#include "rlx/graph.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx::onnx {

struct LoadOptions {
  // Values of inputs. One that decides a shape (the target of a Reshape, the k of a TopK) must be known when
  // the model is loaded: such an input is taken from here, and is no input of the graph any more. Load the
  // model again for another value. Inputs that decide nothing are left alone; only where the model cannot be
  // made for any size, it is made for theirs (see `sizes`).
  NamedTensors values = {};
  // What stands for the symbols of the inputs' shapes (dim_param): numbers, or other dims. An encoder that
  // halves a picture and a decoder that doubles it agree only for some sizes, and the graph can be made for
  // those: {{"height", 32 * "h"_dim}, {"width", 640}}. A name that no symbol can have is one with '_' in the
  // place of every other character than letters and digits.
  std::map<std::string, Dim, std::less<>> symbols = {};
  // The sizes that runs will have, by symbol, as far as they are known. A model that can be made for any size
  // keeps its symbols. One that cannot is tried again with these sizes, and those of the inputs in `values`,
  // as numbers: Model::fixed_symbols has the ones that were used. Names that no input's shape has are left
  // alone.
  SymbolValues sizes = {};
  // Of inputs that are sequences: how many tensors they have. An input `frames` of length 2 is the inputs
  // `frames[0]` and `frames[1]` of the graph; it need not be given if `values` has these. Nothing, for an
  // input that is an optional: it holds nothing. Optionals that are not named here hold something.
  std::map<std::string, std::optional<int64_t>, std::less<>> lengths = {};
  // Above 0: the caches of a decoder become states with room for this many positions. A cache is an input and
  // an output whose names differ in past.. and present.. (past_key_values.0.key and present.0.key, past_0 and
  // present_0), where the output is the input with new entries behind it. All other sizes of it must be
  // numbers.
  int64_t cache_capacity = 0;
  // Of symbols: Graph::set_capacity. With cache_capacity, a cache to which runs add nothing may have such a
  // symbol in its shape: its state then has room for as many, of which the first are read.
  std::map<std::string, int64_t, std::less<>> capacities = {};
  // For nodes that draw random numbers and have no seed of their own. Each of them draws others, and each run
  // the same.
  uint64_t seed = 0;
  // Not empty: the seed is an input of that name instead, u32[2], which each run may change.
  std::string seed_input = {};
};

// A cache that became a state.
struct Cache {
  std::string state;   // named like the input that it was
  std::string output;  // that the graph no longer has
  // The symbol for how many positions are filled in the end, new ones included: give it to run() if no
  // input's shape has it. Empty for a cache to which runs add nothing, such as a decoder's keys and values of
  // what an encoder made: write it with Executable::write_state.
  std::string length;
  // Of such a cache: the symbol for how many of its entries are read, if its size is one.
  std::string kept = {};
};

struct Model {
  Graph graph;
  // For the graph's params, by the names that the file has. Views of the file, which stays mapped (and must
  // not be cut short); elements of another type than ours are converted when they are read.
  NamedTensors weights;
  // The inputs that were taken from LoadOptions::values.
  NamedTensors fixed_inputs;
  // The symbols of the file that are numbers in the graph, because it could not be made for any size: those
  // of LoadOptions::sizes and `values`. Load the model again for other sizes.
  SymbolValues fixed_symbols;
  // How many tensors those inputs and outputs of the file have that are sequences: an output `boxes` of
  // length 2 is the outputs `boxes[0]` and `boxes[1]` of the graph. Nothing for optionals that hold nothing.
  std::map<std::string, std::optional<int64_t>> lengths;
  // The element types in the file, by input and output, where they differ from the graph's: double is carried
  // as f32, int16 and uint16 as i32, uint64 as u32.
  std::map<std::string, std::string> carried;
  std::vector<Cache> caches;
};

// ErrorKind::invalid_file says what is wrong with the file; ErrorKind::unsupported lists all nodes that
// cannot be imported, with the reason for each. If the sizes of a run are known, the list is what remains
// with those (LoadOptions::sizes).
Model load(const std::string& path, const LoadOptions& options = {});
// The same for a file in memory; `name` is for messages. External data needs a folder.
Model parse(std::vector<std::byte> bytes, const std::string& name = "the model",
            const LoadOptions& options = {});

struct Problem {
  std::string node;  // "" if it is about the file as a whole
  std::string op;
  std::string reason;
};

// What a file has, whether or not it can be imported.
struct Info {
  std::string producer;
  std::map<std::string, int64_t> opsets;  // by domain; "" is ONNX's own
  std::map<std::string, int64_t> ops;     // how often each is used, sub-graphs and functions included
  std::vector<std::string> inputs;        // "name: float[batch, 3, 224, 224]"
  std::vector<std::string> outputs;
  int64_t parameters = 0;  // elements of all initializers and constants
  int64_t bytes = 0;
  std::vector<Problem> problems;  // why it cannot be imported; empty if it can
};
Info inspect(const std::string& path, const LoadOptions& options = {});

}  // namespace rlx::onnx
RLX_EXPORT_END
