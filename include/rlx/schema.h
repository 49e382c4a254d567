// What each op takes, can be told and returns: one table for all that call ops by name (rlx/call.h, graph
// texts), for documents and for other languages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct OpSchema {
  // An operand or an output.
  struct Tensor {
    std::string name;
    std::string doc;
    // The names of its element types. "T" is one of OpSchema::types, the same wherever it is written.
    std::vector<std::string> types;
    bool optional = false;  // an operand that may be left out, an output that only some attributes ask for
    bool variadic = false;  // stands for any number of them; always the last
  };
  struct Attribute {
    std::string name;
    std::string doc;
    std::string kind;                          // "whole number", "list of texts": for people
    std::optional<std::string> default_value;  // as graph texts write it; nothing: must be given
    std::vector<std::string> words;            // if not empty, the only texts that it can be
  };

  std::string name;
  std::string doc;  // what it computes, in one line
  std::vector<std::string> types;
  std::vector<Tensor> operands;  // in the order of inputs
  std::vector<Attribute> attributes;
  std::vector<Tensor> outputs;
  bool internal = false;  // only the library and graph texts make it: rlx/ops.h has no function for it
  bool custom = false;    // registered by a program (rlx/custom_op.h)
};

// The op of that name, those that programs have registered included; otherwise an error with similar names.
// What is returned stays.
const OpSchema& op_schema(std::string_view name);
// The names of all ops, in alphabetic order.
std::vector<std::string> op_names();

}  // namespace rlx
RLX_EXPORT_END
