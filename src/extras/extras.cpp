#include "extras/extras.h"

#include <mutex>

#include "rlx/error.h"

namespace rlx {

void extras::refuse(const std::string& sentence) { throw Error(ErrorKind::invalid_graph, sentence); }

void register_extras() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_op(extras::umap_knn_op());
    register_op(extras::group_limited_gate_op());
  });
}

}  // namespace rlx
