// The default recv_reduce: receives into scratch memory, then reduces.
#include "tutti/provider/transport.hpp"

#include <memory>
#include <vector>

namespace tutti {

void Transport::recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with,
                            const Fold& fold, Done done) {
  auto scratch = std::make_shared<std::vector<std::byte>>(into.size());
  const Bytes landing(*scratch);
  recv(from, tag, call, landing, [=, scratch = std::move(scratch), done = std::move(done)](const Status& status) {
    if (status.ok()) fold(into.data(), with, scratch->data(), into.size());
    done(status);
  });
}

}  // namespace tutti
