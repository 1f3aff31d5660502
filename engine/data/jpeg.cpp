// JPEG decoding with libjpeg.
#include <csetjmp>
#include <cstdio>  // jpeglib.h wants it before itself

#include <jpeglib.h>

#include "engine/data/image_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

struct Handler {
  jpeg_error_mgr manager;
  std::jmp_buf out;
  char text[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr info) {
  auto* const handler = reinterpret_cast<Handler*>(info->err);
  info->err->format_message(info, handler->text);
  std::longjmp(handler->out, 1);
}

/// Treats warnings about damaged data as errors; libjpeg would fill in the missing parts.
void leave_on_warning(j_common_ptr info, int level) {
  if (level < 0) leave(info);
}

/// Returns true if the image was decoded. Contains no objects with destructors, because errors leave it by longjmp.
bool decode(jpeg_decompress_struct& info, Handler& handler, std::span<const std::uint8_t> file, Pixels& image) {
  if (setjmp(handler.out) != 0) return false;
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  image.height = info.output_height;
  image.width = info.output_width;
  image.bytes.resize(image.height * image.width * image.channels);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.bytes.data() + info.output_scanline * image.width * image.channels;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Pixels decode_jpeg(std::span<const std::uint8_t> file, std::size_t channels) {
  Pixels image{0, 0, channels, {}};
  Handler handler{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&handler.manager);
  handler.manager.error_exit = leave;
  handler.manager.emit_message = leave_on_warning;
  jpeg_create_decompress(&info);
  const bool good = decode(info, handler, file, image);
  jpeg_destroy_decompress(&info);
  if (!good) throw Error(Code::invalid, std::string("is no whole JPEG file: ") + handler.text);
  return image;
}

}  // namespace tutti::engine
