// The entry that libFuzzer calls, which makes the inputs.
#include <cstddef>

#include "tests/fuzz/door.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::take({data, size});
  return 0;
}
