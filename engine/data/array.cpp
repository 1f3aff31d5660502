#include "engine/data/array.hpp"

#include <cstring>

#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t most_elements = std::size_t{1} << 40;

template <class T>
constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class To, class From>
To number(From value) {
  if constexpr (is_half<From>)
    return number<To>(static_cast<float>(value));
  else if constexpr (is_half<To>)
    return To(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

}  // namespace

std::string describe(const ArrayShape& shape) {
  if (shape.empty()) return "one number";
  std::string text;
  for (std::int64_t dim : shape) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

std::size_t elements(const ArrayShape& shape) {
  const auto count = checked_product(1, shape, most_elements);
  if (!count) throw Error(Code::invalid, "a shape of " + describe(shape) + " is impossible");
  return *count;
}

Array::Array(DType dtype, ArrayShape shape, std::shared_ptr<const std::byte> memory)
    : dtype_(dtype), shape_(std::move(shape)), count_(elements(shape_)), memory_(std::move(memory)) {}

std::span<const std::byte> Array::bytes() const {
  if (!here()) throw Error(Code::invalid, "an array (" + describe() + ") is not in the memory of the host");
  return {memory_.get(), byte_count()};
}

Array Array::row(std::size_t i) const {
  Array found = rows(i, 1);
  found.shape_.erase(found.shape_.begin());
  return found;
}

Array Array::rows(std::size_t begin, std::size_t rows) const {
  if (shape_.empty() || begin + rows > static_cast<std::size_t>(shape_[0]))
    throw Error(Code::invalid, "an array (" + describe() + ") has no rows " + std::to_string(begin) + " to " +
                                   std::to_string(begin + rows));
  ArrayShape shape = shape_;
  shape[0] = static_cast<std::int64_t>(rows);
  const std::size_t row_bytes = shape_[0] == 0 ? 0 : byte_count() / static_cast<std::size_t>(shape_[0]);
  return Array(dtype_, std::move(shape),
               memory_ ? std::shared_ptr<const std::byte>(memory_, memory_.get() + begin * row_bytes) : nullptr);
}

Array Array::reshaped(ArrayShape shape) const {
  Array found = *this;
  found.shape_ = std::move(shape);
  found.count_ = elements(found.shape_);
  found.check_count(count_);
  return found;
}

Array Array::converted(DType dtype) const {
  if (dtype == dtype_) return *this;
  return make(dtype, shape_, [&](std::byte* into) {
    visit_dtype(dtype_, [&]<class From>(From) {
      const auto from = as<From>();
      visit_dtype(dtype, [&]<class To>(To) {
        To* out = reinterpret_cast<To*>(into);
        for (const From value : from) *out++ = number<To>(value);
      });
    });
  });
}

std::string Array::describe() const { return std::string(name(dtype_)) + " of " + engine::describe(shape_); }

void Array::check_dtype(DType expected) const {
  if (dtype_ != expected)
    throw Error(Code::invalid, "expected an array of " + std::string(name(expected)) + ", found " + describe());
}

void Array::check_count(std::size_t found) const {
  if (count_ != found)
    throw Error(Code::invalid, "expected " + std::to_string(found) + (found == 1 ? " element" : " elements") +
                                   ", found " + describe());
}

}  // namespace tutti::engine
