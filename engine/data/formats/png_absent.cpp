// Replaces png.cpp in builds without libpng.
#include "engine/data/formats/image_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

void decode_png(std::span<const std::uint8_t>, const ReadLimits&, Canvas&) {
  throw Error(Code::invalid, "this tutti was built without libpng: install libpng-dev and build it again");
}

}  // namespace tutti::engine
