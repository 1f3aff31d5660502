// PNG decoding with libpng. Colours are converted as libpng's simplified interface does: to sRGB, 8 bits a channel.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "engine/data/formats/image_file.hpp"
#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t most_deflated = 1032;  // bytes that one byte can stand for

constexpr png_alloc_size_t largest_chunk = std::size_t{4} << 20;  // unpacked, as of a colour profile
// Texts and the like, of which each may unpack to megabytes: four letters and a zero each.
constexpr char left_out[] = {'t', 'E', 'X', 't', 0,   'z', 'T', 'X', 't', 0,   'i', 'T', 'X',
                             't', 0,   's', 'P', 'L', 'T', 0,   'e', 'X', 'I', 'f', 0};

struct Reading {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest = {};
  std::vector<std::uint8_t> rows = {};  // one, or all of an interlaced image
  char text[200] = {};

  Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave(png_structp png, png_const_charp what) {
  auto* const reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading->text, sizeof reading->text, "%s", what);
  png_longjmp(png, 1);
}

void ignore(png_structp /*png*/, png_const_charp /*what*/) {}

void take(png_structp png, png_bytep into, std::size_t bytes) {
  auto* const reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (bytes > reading->rest.size()) png_error(png, "its end is missing");
  std::memcpy(into, reading->rest.data(), bytes);
  reading->rest = reading->rest.subspan(bytes);
}

void convert(png_structp png, png_infop info, std::size_t channels) {
  const png_byte colour = png_get_color_type(png, info);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_alpha_mode_fixed(png, PNG_ALPHA_PNG, PNG_DEFAULT_sRGB);
  if (channels == 3)
    png_set_gray_to_rgb(png);
  else if ((colour & PNG_COLOR_MASK_COLOR) != 0)
    png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT, PNG_RGB_TO_GRAY_DEFAULT);
  if ((colour & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0) {
    const png_color_16 black{};
    png_set_background_fixed(png, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, 0);
  }
}

/// Returns true if the image was decoded. Contains no objects with destructors, because errors leave it by longjmp.
bool decode(Reading& reading, const ReadLimits& limits, Canvas& canvas) {
  const png_structp png = reading.png;
  const std::size_t file_bytes = reading.rest.size();
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_pixels() has the say
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>(left_out),
                              sizeof left_out / 5);
  png_set_chunk_malloc_max(png, largest_chunk);
  png_set_read_fn(png, &reading, take);
  png_read_info(png, reading.info);
  const std::size_t height = png_get_image_height(png, reading.info), width = png_get_image_width(png, reading.info);
  const bool interlaced = png_get_interlace_type(png, reading.info) != PNG_INTERLACE_NONE;
  const std::size_t bits = std::size_t{png_get_bit_depth(png, reading.info)} * png_get_channels(png, reading.info);
  check_pixels(height, width, interlaced || !canvas.resizes(), file_bytes * most_deflated * 8 / bits, limits);
  convert(png, reading.info, canvas.channels());
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  const std::size_t row = png_get_rowbytes(png, reading.info);
  if (row != width * canvas.channels()) png_error(png, "its colours cannot be converted");
  canvas.begin(height, width);
  reading.rows.resize(interlaced ? height * row : row);
  if (!interlaced) {
    for (std::size_t y = 0; y < height; ++y) {
      png_read_row(png, reading.rows.data(), nullptr);
      canvas.row(reading.rows.data());
    }
    return true;
  }
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t y = 0; y < height; ++y) png_read_row(png, reading.rows.data() + y * row, nullptr);
  for (std::size_t y = 0; y < height; ++y) canvas.row(reading.rows.data() + y * row);
  return true;
}

}  // namespace

void decode_png(std::span<const std::uint8_t> file, const ReadLimits& limits, Canvas& canvas) {
  Reading reading;
  reading.rest = file;
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, leave, ignore);
  reading.info = reading.png ? png_create_info_struct(reading.png) : nullptr;
  if (!reading.info) throw std::bad_alloc();
  if (!decode(reading, limits, canvas))
    throw Error(Code::invalid, std::string("is no whole PNG file: ") + reading.text);
}

}  // namespace tutti::engine
