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

#include "tutti/status.hpp"

namespace tutti::engine {

namespace fs = std::filesystem;

void refuse(const fs::path& file, const std::string& what) { throw Error(Code::invalid, file.string() + ": " + what); }

GzipReader::GzipReader(const fs::path& file) : file_(file), stream_(gzopen(file.c_str(), "rbe")) {
  if (!stream_) refuse(file, std::string("cannot be opened: ") + std::strerror(errno));
  gzbuffer(static_cast<gzFile>(stream_), 1 << 18);
}

GzipReader::~GzipReader() { gzclose(static_cast<gzFile>(stream_)); }

std::size_t GzipReader::read(std::uint8_t* into, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const auto piece = static_cast<unsigned>(std::min<std::size_t>(bytes - done, 1U << 30));
    const int got = gzread(static_cast<gzFile>(stream_), into + done, piece);
    check();
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void GzipReader::check() {
  int code = Z_OK;
  const char* text = gzerror(static_cast<gzFile>(stream_), &code);
  if (code == Z_BUF_ERROR) return;  // a truncated gzip stream: the caller checks the number of bytes
  if (code == Z_ERRNO) refuse(file_, std::string("cannot be read: ") + std::strerror(errno));
  if (code != Z_OK) refuse(file_, std::string("is not a whole gzip file (") + text + "); fetch it again");
}

std::vector<std::uint8_t> GzipReader::read_exactly(std::size_t expected, bool to_end) {
  std::vector<std::uint8_t> bytes;
  std::size_t found = 0;
  while (found < expected) {
    const std::size_t piece = std::min<std::size_t>(expected - found, std::size_t{64} << 20);
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

std::vector<std::uint8_t> read_whole(const fs::path& file) {
  GzipReader in(file);
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
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (descriptor < 0 || fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
    const std::string why = descriptor < 0 ? std::strerror(errno) : "it is no regular file";
    if (descriptor >= 0) close(descriptor);
    refuse(file, "cannot be opened: " + why);
  }
  const auto bytes = static_cast<std::size_t>(about.st_size);
  void* const memory = bytes > 0 ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  close(descriptor);
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
