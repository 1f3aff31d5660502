// The protocol between the launcher and the agents of other hosts: frames as both read them, and a job as an agent
// does.
#include <unistd.h>

#include "tests/fuzz/door.hpp"
#include "tools/run/channel.hpp"
#include "tools/run/job.hpp"
#include "tools/run/job_text.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  int ends[2];
  expect(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  const Descriptor in(ends[0]);
  Descriptor out(ends[1]);
  expect(::write(out.fd(), input.data(), input.size()) == static_cast<ssize_t>(input.size()), "a full pipe");
  tools::Channel channel(Descriptor(dup(in.fd())), std::move(out), std::string(tools::agent_greeting));
  channel.close_output();
  const bool refused = refuses([&] {
    channel.receive();
    while (const auto frame = channel.next()) {
      if (frame->say != tools::Say::job) continue;
      std::string folder;
      refuses([&] { tools::parse_job(frame->text, folder); });
    }
  });
  std::string folder;
  refuses([&] { tools::parse_job(std::string(text_of(input)), folder); });
  return !refused;
}

}  // namespace tutti::fuzz
