// Why a node of an ONNX file cannot be imported.
#pragma once

#include <string>
#include <vector>

#include "rlx/error.h"

namespace rlx::onnx {

enum class Refusal {
  missing_op,      // we do not have it yet
  element_type,    // an element type that is not carried
  not_a_tensor,    // strings, maps, sparse tensors
  foreign_domain,  // ai.onnx.ml, ai.onnx.preview.training and other sets of ops
  host_value,      // an input decides a shape, and its value was not given
  other,
};

// An error with its reason. Only the importer sees the difference; callers get an Error.
class Refused : public Error {
 public:
  Refused(Refusal why, const std::string& message) : Error(ErrorKind::unsupported, message), why_(why) {}
  Refusal why() const { return why_; }

 private:
  Refusal why_;
};

struct ImportProblem {
  Refusal why = Refusal::other;
  std::string node;  // its name, or that of its first output
  std::string op;    // with its domain, unless that is ONNX's own
  std::string reason;
  bool invalid = false;  // the file is wrong, rather than something missing here
};

}  // namespace rlx::onnx
