#include "transports/cudaipc/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::cudaipc {

Board Board::make(int ranks) {
  Descriptor fd(::memfd_create("tutti cudaipc", MFD_CLOEXEC));
  const std::size_t bytes = whole_pages(sizeof(Line) * static_cast<std::size_t>(ranks));
  if (fd.fd() < 0 || ::ftruncate(fd.fd(), static_cast<off_t>(bytes)) != 0 || reserve_file(fd.fd(), 0, bytes) != 0)
    refuse_allocation(bytes, std::strerror(errno));
  Board made = map(fd.fd(), ranks);
  made.fd_ = std::move(fd);
  return made;
}

Board Board::open(const Place& place, int ranks) {
  const std::string path = "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.fd);
  const Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.fd() < 0)
    throw Error(Code::unsupported, "this process does not reach the files of process " + std::to_string(place.process) +
                                       " (" + std::strerror(errno) + "); ranks of one user in one container do");
  return map(fd.fd(), ranks);
}

Board Board::map(int fd, int ranks) {
  const std::size_t bytes = whole_pages(sizeof(Line) * static_cast<std::size_t>(ranks));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) refuse_allocation(bytes, std::strerror(errno));
  Board board;
  board.lines_ = {static_cast<Line*>(memory), [bytes](Line* lines) { ::munmap(lines, bytes); }};  // zero-initialised
  return board;
}

Board::Place Board::place() const noexcept { return {::getpid(), fd_.fd()}; }

}  // namespace tutti::cudaipc
