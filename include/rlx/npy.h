// Reading and writing NumPy's files: npy, one array, and npz, several of them by name.
//
//   const rlx::Tensor image = rlx::read_npy("image.npy");
//   for (const auto& [name, tensor] : rlx::read_npz("arrays.npz")) ...
//   rlx::write_npy("probs.npy", outputs.at("probs"));
//
// Versions 1.0 to 3.0 of the format, in either byte order, and in C's or Fortran's order of the elements.
#pragma once

#include <string>

#include "rlx/export.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A view of the file, which stays mapped, where its elements lie as a tensor's do. NumPy's types that tensors
// do not have: float64 is rounded to f32, int16 and uint16 become i32, uint64 becomes u32; a number that does
// not fit there is an error that names it. Two raw bytes (V2), which is how bfloat16 is saved, are bf16.
// ErrorKind::invalid_file names the file and what is wrong with it.
Tensor read_npy(const std::string& path);
// The members that end in .npy, without that ending; stored or deflated (savez and savez_compressed).
NamedTensors read_npz(const std::string& path);

// The file appears when it is complete. NumPy has no bfloat16: bf16 is written as float32, and so are the
// values of encoded types.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace rlx
RLX_EXPORT_END
