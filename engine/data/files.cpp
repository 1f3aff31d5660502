// Streams are read with zlib, which passes uncompressed files through.
#include "engine/data/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

namespace fs = std::filesystem;

void refuse(const fs::path& file, const std::string& what) { throw Error(Code::invalid, file.string() + ": " + what); }

namespace {

constexpr std::size_t free_bytes = std::size_t{16} << 20;
constexpr std::size_t gzip_piece = std::size_t{16} << 20;  // bytes that are read before the limit is checked again

/// Opens a regular file only; opening anything else, such as a pipe, could block forever.
Descriptor open_regular(const fs::path& file) {
  Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!descriptor || ::fstat(descriptor.fd(), &about) != 0)
    refuse(file, std::string("cannot be opened: ") + std::strerror(errno));
  if (!S_ISREG(about.st_mode)) refuse(file, "cannot be opened: it is no regular file");
  return descriptor;
}

}  // namespace

std::size_t ReadLimits::unpacked(std::size_t stored) const noexcept {
  std::size_t most = 0;
  if (__builtin_mul_overflow(stored, max_compression, &most) || __builtin_add_overflow(most, free_bytes, &most))
    return std::numeric_limits<std::size_t>::max();
  return most;
}

GzipReader::GzipReader(const fs::path& file, const ReadLimits& limits) : file_(file), limits_(limits) {
  const Descriptor descriptor = open_regular(file);
  const int own = ::fcntl(descriptor.fd(), F_DUPFD_CLOEXEC, 3);  // zlib closes it
  stream_ = own < 0 ? nullptr : gzdopen(own, "rb");
  if (!stream_) {
    if (own >= 0) ::close(own);
    refuse(file, std::string("cannot be opened: ") + std::strerror(errno));
  }
  gzbuffer(static_cast<gzFile>(stream_), 1 << 18);
}

GzipReader::~GzipReader() { gzclose(static_cast<gzFile>(stream_)); }

std::size_t GzipReader::read(std::uint8_t* into, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const auto piece = static_cast<unsigned>(std::min(bytes - done, gzip_piece));
    const int got = gzread(static_cast<gzFile>(stream_), into + done, piece);
    check();
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
    read_ += static_cast<std::size_t>(got);
    const auto stored = static_cast<std::size_t>(std::max<z_off_t>(gzoffset(static_cast<gzFile>(stream_)), 0));
    if (read_ > limits_.unpacked(stored))
      refuse(file_, "unpacks to more than " + std::to_string(limits_.max_compression) +
                        " times its size: raise data.max_compression if that is right");
  }
  return done;
}

void GzipReader::check() {
  int code = Z_OK;
  const char* text = gzerror(static_cast<gzFile>(stream_), &code);
  if (code == Z_ERRNO) refuse(file_, std::string("cannot be read: ") + std::strerror(errno));
  if (code != Z_OK) refuse(file_, std::string("is not a whole gzip file (") + text + "); fetch it again");
}

std::vector<std::uint8_t> GzipReader::read_exactly(std::size_t expected, bool to_end) {
  std::vector<std::uint8_t> bytes;
  std::size_t found = 0;
  while (found < expected) {
    // The first piece is small, because `expected` is from a header and may be too large.
    const std::size_t piece = std::min(expected - found, std::size_t{found == 0 ? 1u : 64u} << 20);
    bytes.resize(found + piece);
    const std::size_t got = read(bytes.data() + found, piece);
    found += got;
    if (got < piece) break;
  }
  std::uint8_t extra = 0;
  const bool longer = to_end && found == expected && read(&extra, 1) == 1;
  if (found < expected || longer)
    refuse(file_, "expected " + std::to_string(expected) + " bytes after the header, found " +
                      (longer ? "more" : std::to_string(found)) + "; the file is truncated or corrupt, fetch it again");
  return bytes;
}

std::vector<std::uint8_t> read_whole(const fs::path& file, const ReadLimits& limits) {
  GzipReader in(file, limits);
  std::vector<std::uint8_t> bytes;
  for (std::size_t found = 0;;) {
    const std::size_t piece = std::max<std::size_t>(found, 1 << 16);
    bytes.resize(found + piece);
    const std::size_t got = in.read(bytes.data() + found, piece);
    found += got;
    if (got == piece) continue;
    bytes.resize(found);
    return bytes;
  }
}

MappedFile map_file(const fs::path& file) {
  const Descriptor descriptor = open_regular(file);
  struct stat about {};
  if (::fstat(descriptor.fd(), &about) != 0) refuse(file, std::string("cannot be opened: ") + std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(about.st_size);
  void* const memory = bytes > 0 ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor.fd(), 0) : nullptr;
  if (memory == MAP_FAILED) refuse(file, std::string("cannot be mapped into memory: ") + std::strerror(errno));
  return {std::shared_ptr<const std::byte>(static_cast<const std::byte*>(memory),
                                           [memory, bytes](const std::byte*) {
                                             if (memory) munmap(memory, bytes);
                                           }),
          bytes};
}

std::vector<fs::path> list_folder(const fs::path& folder, std::span<const std::string_view> endings) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string ending = entry.path().extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    if (endings.empty() ? entry.is_directory() : std::find(endings.begin(), endings.end(), ending) != endings.end())
      found.push_back(entry.path());
  }
  if (error) refuse(folder, "cannot be listed: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tutti::engine
