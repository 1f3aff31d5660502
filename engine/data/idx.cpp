// Reading goes through zlib, which passes files that are not gzip'd through as they are.
#include "engine/data/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "transports/core/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint8_t unsigned_byte = 0x08;
constexpr std::size_t largest = std::size_t{1} << 36;  // a header that says more is garbage, not data

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(Code::invalid, file.string() + ": " + what);
}

class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& file) : file_(file), stream_(gzopen(file.c_str(), "rbe")) {
    if (!stream_) refuse(file, std::string("cannot be opened: ") + std::strerror(errno));
    gzbuffer(stream_, 1 << 18);
  }
  ~GzipReader() { gzclose(stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Bytes read, fewer than asked for at the end of the file.
  std::size_t read(std::uint8_t* into, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const auto piece = static_cast<unsigned>(std::min<std::size_t>(bytes - done, 1U << 30));
      const int got = gzread(stream_, into + done, piece);
      check();
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  void check() {
    int code = Z_OK;
    const char* text = gzerror(stream_, &code);
    if (code == Z_BUF_ERROR) return;  // a gzip stream that ends early: the caller counts the bytes
    if (code == Z_ERRNO) refuse(file_, std::string("cannot be read: ") + std::strerror(errno));
    if (code != Z_OK) refuse(file_, std::string("is not a whole gzip file (") + text + "); fetch it again");
  }

  std::filesystem::path file_;
  gzFile stream_;
};

std::size_t big_endian(const std::uint8_t* bytes) {
  return std::size_t{bytes[0]} << 24 | std::size_t{bytes[1]} << 16 | std::size_t{bytes[2]} << 8 | bytes[3];
}

std::vector<std::size_t> read_header(GzipReader& in, const std::filesystem::path& file, std::size_t rank) {
  std::vector<std::uint8_t> header(4 + 4 * rank);
  const std::size_t got = in.read(header.data(), header.size());
  if (got < header.size())
    refuse(file, "expected an IDX header of " + std::to_string(header.size()) + " bytes, found " + std::to_string(got));
  if (header[0] != 0 || header[1] != 0 || header[2] != unsigned_byte || header[3] != rank) {
    char text[96];
    std::snprintf(text, sizeof text,
                  "expected an IDX file starting with bytes 00 00 08 %02zx, found %02x %02x %02x %02x", rank, header[0],
                  header[1], header[2], header[3]);
    refuse(file, text);
  }
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < rank; ++d) dims.push_back(big_endian(&header[4 + 4 * d]));
  return dims;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, std::size_t rank) {
  GzipReader in(file);
  IdxArray array{read_header(in, file, rank), {}};
  std::size_t expected = 1;
  for (std::size_t dim : array.dims) {
    if (dim != 0 && expected > largest / dim)
      refuse(file, "its header asks for an impossible size; the file is corrupt");
    expected *= dim;
  }
  // Grown as data arrives, so that a corrupt header cannot ask for memory that no data backs.
  std::size_t found = 0;
  while (found < expected) {
    const std::size_t piece = std::min<std::size_t>(expected - found, std::size_t{64} << 20);
    array.bytes.resize(found + piece);
    const std::size_t got = in.read(array.bytes.data() + found, piece);
    found += got;
    if (got < piece) break;
  }
  std::uint8_t extra = 0;
  const bool longer = found == expected && in.read(&extra, 1) == 1;
  if (found < expected || longer)
    refuse(file, "expected " + std::to_string(expected) + " bytes after the header, found " +
                     (longer ? "more" : std::to_string(found)) + "; the file is truncated or corrupt, fetch it again");
  return array;
}

void write_idx(const std::filesystem::path& file, const IdxArray& array) {
  std::vector<std::uint8_t> header{0, 0, unsigned_byte, static_cast<std::uint8_t>(array.dims.size())};
  for (std::size_t dim : array.dims)
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<std::uint8_t>(dim >> shift));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "wbe"), std::fclose);
  if (!out || std::fwrite(header.data(), 1, header.size(), out.get()) != header.size() ||
      std::fwrite(array.bytes.data(), 1, array.bytes.size(), out.get()) != array.bytes.size() ||
      std::fflush(out.get()) != 0)
    throw Error(Code::resource, file.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace tutti::engine
