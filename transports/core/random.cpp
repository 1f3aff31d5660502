#include "transports/core/random.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti {

void fill_random(void* into, std::size_t bytes) {
  Descriptor device;
  for (std::size_t have = 0; have < bytes;) {
    char* const at = static_cast<char*>(into) + have;
    const ssize_t got = device ? ::read(device.fd(), at, bytes - have) : ::getrandom(at, bytes - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    const int why = got == 0 ? EIO : errno;
    if (!device)
      device = Descriptor(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
    else
      device.reset();
    if (!device)
      throw Error(Code::resource, std::string("the kernel gives no random bytes (getrandom, /dev/urandom): ") +
                                      std::strerror(why) + "; allow this process one of them");
  }
}

}  // namespace tutti
