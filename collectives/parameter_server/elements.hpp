// Access to elements of any floating-point type, for the rules of parameter servers.
#pragma once

#include <string>
#include <type_traits>

#include "tutti/buffer.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// The type in which values of type T are computed: double for double, float for all others.
template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
T* elements(const Buffer& buffer) noexcept {
  return reinterpret_cast<T*>(buffer.data);
}
template <class T>
const T* elements(const ConstBuffer& buffer) noexcept {
  return reinterpret_cast<const T*>(buffer.data);
}

/// Calls `body` with a null pointer to the C++ type of `dtype`. Throws Error{invalid} for integers.
template <class Body>
void with_elements(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f16: return body(static_cast<f16*>(nullptr));
    case DType::bf16: return body(static_cast<bf16*>(nullptr));
    case DType::f32: return body(static_cast<float*>(nullptr));
    case DType::f64: return body(static_cast<double*>(nullptr));
    default: throw Error(Code::invalid, "parameters are f16, bf16, f32 or f64, not " + std::string(name(dtype)));
  }
}

}  // namespace tutti
