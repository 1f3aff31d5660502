#include "bindings/common/views.hpp"

#include <array>
#include <string>

#include "tutti/status.hpp"

namespace tutti::bindings {
namespace {

constexpr auto table = [] {
  std::array<View, dtype_count + 4> all{};
  constexpr std::string_view names[] = {"i8",   "u8",  "i16", "i32", "i64", "f16",
                                        "bf16", "f32", "f64", "u16", "u32", "u64"};
  for (std::size_t i = 0; i < dtype_count; ++i) all[i] = {names[i], Meaning::number, static_cast<DType>(i), 1};
  all[bool_view] = {"bool", Meaning::truth, DType::u8, 1};
  all[c64_view] = {"c64", Meaning::complex, DType::f32, 2};
  all[c128_view] = {"c128", Meaning::complex, DType::f64, 2};
  all[bytes_view] = {"bytes", Meaning::bytes, DType::u8, 1};
  return all;
}();

[[noreturn]] void refuse(Reduction wanted, const View& view, const char* instead) {
  throw Error(Code::invalid,
              std::string(name(wanted.op)) + " is not defined for " + std::string(view.name) + "; " + instead);
}

}  // namespace

std::span<const View> views() noexcept { return table; }

std::optional<View> find_view(std::string_view name) noexcept {
  for (const View& view : table)
    if (view.name == name) return view;
  return std::nullopt;
}

Reduction reduction_on(const View& view, Reduction wanted) {
  switch (view.meaning) {
    case Meaning::number: return wanted;
    case Meaning::truth:
      if (wanted.op == Op::sum) return bor;
      if (wanted.op == Op::prod) return band;
      if (wanted.op == Op::avg || wanted.op == Op::premul_sum)
        refuse(wanted, view, "convert to a number, or use sum, which is or");
      return wanted;
    case Meaning::complex:
      if (wanted.op == Op::sum || wanted.op == Op::avg || wanted.op == Op::premul_sum) return wanted;
      refuse(wanted, view, "complex numbers have sum, avg and premul_sum");
    case Meaning::bytes: refuse(wanted, view, "bytes are only moved; give the type of the elements");
  }
  return wanted;
}

}  // namespace tutti::bindings
