// Arrays of NumPy's files in the element types of ONNX, which are NumPy's and some more.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/tensor.h"

namespace rlx {

// One array, checked against the size of its file; its elements have not been looked at.
struct NpyArray {
  std::string name;  // of its file, and in an npz file its own
  onnx::ElementType type = onnx::ElementType::undefined;
  std::vector<int64_t> shape;
  bool big_endian = false;
  bool fortran_order = false;
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;  // keeps the data alive

  // The tensor that carries values of this type (onnx::carrier): of integers from integers, of floats from
  // floats and so on, and only if every value is one of the type. Doubles alone may be rounded: those who
  // want float64 know that it is carried as f32. ErrorKind::invalid_argument names the element that does not
  // fit.
  Tensor as(onnx::ElementType wanted) const;
};

// As NumPy calls the type: "float32", "int16".
std::string_view numpy_name(onnx::ElementType type);

// ErrorKind::unsupported if it is an array of something that tensors do not have, such as strings.
NpyArray open_npy(const std::string& path);
std::map<std::string, NpyArray> open_npz(const std::string& path);

// In NumPy's type for `type`, which `tensor` carries: int8 for int4, float32 for bfloat16.
void write_npy(const std::string& path, const Tensor& tensor, onnx::ElementType type);

}  // namespace rlx
