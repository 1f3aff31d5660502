// Replaces jpeg.cpp in builds without libjpeg.
#include "engine/data/formats/image_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

void decode_jpeg(std::span<const std::uint8_t>, const ReadLimits&, Canvas&) {
  throw Error(Code::invalid, "this tutti was built without libjpeg: install libjpeg62-turbo-dev and build it again");
}

}  // namespace tutti::engine
