// Outputs of a run as npy files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/graph_file.h"

namespace rlx::cli {

// A file name for each output: letters, digits, '.', '-' and '_' stay, everything else becomes '_', and of
// two that would have the same one gets a number.
std::map<std::string, std::string> output_file_names(const std::vector<std::string>& outputs);

// Makes the folder, with those around it. Fails if nothing can be written there.
void make_output_folder(const std::string& folder);

// To these files in the folder, by output; in the element types of the model's file.
void write_outputs(const std::string& folder, const std::map<std::string, std::string>& files,
                   const NamedTensors& outputs, const Model& model);

}  // namespace rlx::cli
