#include "tools/run/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cstdlib>

namespace tutti::tools {

std::optional<Terminal> make_terminal(int shown) {
  Terminal made{Descriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), Inherited()};
  if (!made.reading || unlockpt(made.reading.fd()) != 0) return std::nullopt;
  const int writing = ioctl(made.reading.fd(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  made.writing = Inherited(writing);
  termios settings = {};
  if (writing < 0 || tcgetattr(writing, &settings) != 0) return std::nullopt;
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // the launcher's own terminal converts newlines
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG);
  if (tcsetattr(writing, TCSANOW, &settings) != 0) return std::nullopt;
  copy_size(shown, made.reading.fd());
  return made;
}

void copy_size(int shown, int reading) {
  winsize size = {};
  if (ioctl(shown, TIOCGWINSZ, &size) == 0) ioctl(reading, TIOCSWINSZ, &size);
}

}  // namespace tutti::tools
