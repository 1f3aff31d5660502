// PNG decoding with libpng. Pixels become what PIL, OpenCV and torchvision make of them.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "engine/data/formats/image_file.hpp"
#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t most_deflated = 1032;  // largest number of bytes that one byte unpacks to

constexpr png_alloc_size_t largest_chunk = std::size_t{4} << 20;  // unpacked bytes of one, such as a colour profile
// Chunks that are skipped, such as texts, which may unpack to megabytes; each name is four letters and a zero.
constexpr char left_out[] = {'t', 'E', 'X', 't', 0,   'z', 'T', 'X', 't', 0,   'i', 'T', 'X',
                             't', 0,   's', 'P', 'L', 'T', 0,   'e', 'X', 'I', 'f', 0};

struct Reading {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest = {};
  std::vector<std::uint8_t> rows = {};  // one row, or all rows of an interlaced image
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

/// Lets libpng convert to 8 bits of grey, or of red, green and blue. Profiles and gamma values do not change the
/// numbers; transparency is ignored; of 16 bits the upper 8 are kept.
void convert(png_structp png, std::size_t channels) {
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  if (channels == 3) png_set_gray_to_rgb(png);
}

/// Replaces red, green and blue by their grey: ITU-R BT.601, with the rounding of PIL.
void make_grey(std::uint8_t* pixels, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    const std::uint8_t* rgb = pixels + 3 * x;
    pixels[x] = static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 0x8000U) >> 16U);
  }
}

/// Returns true if the image was decoded. Contains no objects with destructors, because errors leave it by longjmp.
bool decode(Reading& reading, const ReadLimits& limits, Canvas& canvas) {
  const png_structp png = reading.png;
  const std::size_t file_bytes = reading.rest.size();
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_pixels() limits the size instead
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>(left_out),
                              sizeof left_out / 5);
  png_set_chunk_malloc_max(png, largest_chunk);
  png_set_read_fn(png, &reading, take);
  png_read_info(png, reading.info);
  const std::size_t height = png_get_image_height(png, reading.info), width = png_get_image_width(png, reading.info);
  const bool interlaced = png_get_interlace_type(png, reading.info) != PNG_INTERLACE_NONE;
  const std::size_t bits = std::size_t{png_get_bit_depth(png, reading.info)} * png_get_channels(png, reading.info);
  check_pixels(height, width, interlaced || !canvas.resizes(), file_bytes * most_deflated * 8 / bits, limits);
  convert(png, canvas.channels());
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  const std::size_t row = png_get_rowbytes(png, reading.info);
  const bool coloured = row == 3 * width;
  if (!coloured && row != width * canvas.channels()) png_error(png, "its colours cannot be converted");
  const bool to_grey = coloured && canvas.channels() == 1;
  const auto give = [&](std::uint8_t* pixels) {
    if (to_grey) make_grey(pixels, width);
    canvas.row(pixels);
  };
  canvas.begin(height, width);
  reading.rows.resize(interlaced ? height * row : row);
  if (!interlaced) {
    for (std::size_t y = 0; y < height; ++y) {
      png_read_row(png, reading.rows.data(), nullptr);
      give(reading.rows.data());
    }
    return true;
  }
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t y = 0; y < height; ++y) png_read_row(png, reading.rows.data() + y * row, nullptr);
  for (std::size_t y = 0; y < height; ++y) give(reading.rows.data() + y * row);
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
