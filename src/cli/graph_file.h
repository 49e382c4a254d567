// The front door of the command line: whatever file a command is given, a graph text or an ONNX model,
// becomes a graph with weights and inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "import/onnx/element_type.h"
#include "rlx/graph.h"
#include "rlx/onnx.h"

namespace rlx::cli {

// A graph with its weights, as a file has them, and the inputs that are given with it.
struct Model {
  Graph graph;
  NamedTensors weights;  // of params, as the file has them; a graph text has none
  // From --input: for inputs of the graph, and those that decided a shape and are no inputs of it any more.
  NamedTensors inputs, fixed_inputs;
  // Of inputs and outputs.
  onnx::CarriedTypes types;
  // Symbols of the file that are numbers in the graph: it could not be made for any size.
  SymbolValues fixed_symbols;
};

// The file, and what is needed to load it.
struct ModelFlags {
  std::string file;
  std::vector<std::string> inputs;   // NAME=FILE.npy or FILE.npz
  std::vector<std::string> lengths;  // NAME=N or NAME=none
  // Of ONNX nodes that draw random numbers; a text says its seeds itself.
  std::optional<uint64_t> seed;

  void add_to(Command& command);
  void add_inputs_to(Command& command);  // and the seed
  // Where - is given for the file, or for the file of an input.
  void take_standard_input();
  // All that are read, for check_outputs.
  std::vector<std::string> files() const;

  // By the ending of its name, otherwise by what it holds.
  bool is_onnx() const;
  // Errors name the file and, of a text, the line. Inputs that do not fit the model are Misuse, and so is one
  // that is missing although it decides a shape. A model that cannot be made for any size is made for those
  // of the inputs that are given, and for these.
  Model load(const SymbolValues& sizes = {}) const;
  // What an ONNX file has, whether or not it can be loaded.
  onnx::Info inspect(const SymbolValues& sizes = {}) const;
};

}  // namespace rlx::cli
