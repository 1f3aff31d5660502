// JPEG decoding with libjpeg.
#include <csetjmp>
#include <cstdio>  // jpeglib.h wants it before itself

#include <jpeglib.h>

#include "engine/data/formats/image_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr int most_scans = 100;

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

/// Refuses a progressive image with too many scans. Usual images have about ten; thousands of scans without data would
/// take hours.
void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= most_scans) return;
  auto* const handler = reinterpret_cast<Handler*>(info->err);
  std::snprintf(handler->text, sizeof handler->text, "it has more than %d scans", most_scans);
  std::longjmp(handler->out, 1);
}

/// Lets libjpeg reduce the image by a factor of up to 8, as long as it stays at least twice the wanted size. The canvas
/// does the rest.
void reduce(jpeg_decompress_struct& info, const Canvas& canvas) {
  info.scale_denom = 1;
  if (!canvas.resizes()) return;
  while (info.scale_denom < 8 && info.image_height / (2 * info.scale_denom) >= 2 * canvas.height() &&
         info.image_width / (2 * info.scale_denom) >= 2 * canvas.width())
    info.scale_denom *= 2;
}

/// Returns true if the image was decoded. Contains no objects with destructors, because errors leave it by longjmp.
bool decode(jpeg_decompress_struct& info, Handler& handler, std::span<const std::uint8_t> file,
            const ReadLimits& limits, std::vector<std::uint8_t>& row, Canvas& canvas) {
  if (setjmp(handler.out) != 0) return false;
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  if (info.arith_code) throw Error(Code::invalid, "is coded arithmetically, which few programs do: convert it");
  const std::size_t most = file.size() * 8 * 64;  // a block of 8x8 pixels takes at least one bit
  check_pixels(info.image_height, info.image_width, jpeg_has_multiple_scans(&info) || !canvas.resizes(), most, limits);
  info.out_color_space = canvas.channels() == 1 ? JCS_GRAYSCALE : JCS_RGB;
  reduce(info, canvas);
  jpeg_start_decompress(&info);
  canvas.begin(info.output_height, info.output_width);
  row.resize(std::size_t{info.output_width} * canvas.channels());
  while (info.output_scanline < info.output_height) {
    JSAMPROW into = row.data();
    if (jpeg_read_scanlines(&info, &into, 1) == 1) canvas.row(row.data());
  }
  jpeg_finish_decompress(&info);
  return true;
}

struct Decompressing {
  jpeg_decompress_struct info{};
  ~Decompressing() { jpeg_destroy_decompress(&info); }
};

}  // namespace

void decode_jpeg(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas) {
  Handler handler{};
  std::vector<std::uint8_t> row;
  Decompressing decompressing;
  jpeg_decompress_struct& info = decompressing.info;
  info.err = jpeg_std_error(&handler.manager);
  handler.manager.error_exit = leave;
  handler.manager.emit_message = leave_on_warning;
  jpeg_create_decompress(&info);
  jpeg_progress_mgr progress{};
  progress.progress_monitor = count_scans;
  info.progress = &progress;
  if (!decode(info, handler, file, limits, row, canvas))
    throw Error(Code::invalid, std::string("is no whole JPEG file: ") + handler.text);
}

}  // namespace tutti::engine
