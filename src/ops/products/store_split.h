// Stores the columns to several outputs, one after the other: q, k and v of one product.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "ops/products/product.h"

namespace rlx::products {

class StoreSplit final : public Store {
 public:
  // Contiguous outputs [batch.., rows.., cols], of one type.
  explicit StoreSplit(OperandList outputs) : outputs_(std::move(outputs)) {}

  std::string_view name() const override { return "split"; }
  std::string id() const override { return formatted("split {}", outputs_.size()); }
  std::string wgsl() const override {
    std::string text =
        "struct y_Line { row: u32, }\n"
        "fn y_line(batch: u32, row: u32) -> y_Line { return y_Line(batch * params.m + row); }\n";
    std::string one;
    std::string four;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const std::string name = i == 0 ? "y" : formatted("y{}", i);
      text += formatted("//@ out {} any x4\n//@ param y_end{}: u32\n", name, i);
      const std::string begin = i == 0 ? "0u" : formatted("params.y_end{}", i - 1);
      const std::string statement =
          "  if (col < params.y_end{0}) {{ {1}_put{3}(l.row * (params.y_end{0} - {2}) + col - {2}, v); "
          "return; }}\n";
      one += std::vformat(statement, std::make_format_args(i, name, begin, ""));
      four += std::vformat(statement, std::make_format_args(i, name, begin, "4"));
    }
    return text + "fn y_store(l: y_Line, col: u32, v: y_t) {\n" + one +
           "}\nfn y_store4(l: y_Line, col: u32, v: vec4<y_t>) {\n" + four + "}\n";
  }

  bool offers_four() const override {
    return std::ranges::all_of(
        outputs_, [](const Operand& o) { return o.view.dims.back() % 4 == 0 && o.view.offset % 4 == 0; });
  }
  Binding bind(bool four, const Region&) const override {
    Binding b;
    int64_t end = 0;
    for (Operand o : outputs_) {
      o.x4 = four;
      end += o.view.dims.back();
      b.words.push_back(to_u32(end));
      b.operands.push_back(std::move(o));
    }
    return b;
  }
  DType dtype() const override { return outputs_[0].dtype; }

 private:
  OperandList outputs_;
};

}  // namespace rlx::products
