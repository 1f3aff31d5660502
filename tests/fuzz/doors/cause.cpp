// The cause of a failure, as a peer or the store sends it.
#include "tests/fuzz/door.hpp"
#include "transports/core/printable.hpp"
#include "tutti/status.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  if (input.size() < sizeof(Cause)) return false;
  const Cause cause = Cause::received(input.data());
  const std::string text(cause.text), host(cause.host);
  expect(text.size() < sizeof(cause.text) && host.size() < sizeof(cause.host), "a text without an end");
  expect(text == printable(text) && host == printable(host), "a text that is not printable");
  expect(cause.code != Code::ok && cause.code <= Code::internal, "a code that is none");
  expect(cause.culprit >= -1 && cause.reporter >= -1, "a rank that can be none");
  return true;
}

}  // namespace tutti::fuzz
