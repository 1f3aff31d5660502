// The store's protocol: greetings, requests as the server reads them, and answers as the client reads them. If a client
// sends a request while it waits, the request counts as that of another client.
#include "collectives/bootstrap/store_wire.hpp"

#include "collectives/bootstrap/store_table.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  std::string_view rest = text_of(input);
  std::uint32_t speaks = 0;
  store_wire::Nonce nonce;
  if (store_wire::parse_greeting(rest, speaks, nonce)) rest.remove_prefix(store_wire::greeting_bytes);

  StoreTable table(
      "the store", [](StoreTable::Client, const store_wire::Answer&) {}, [&](auto) { return rest; });
  StoreTable::Client self = 1;
  std::size_t requests = 0;
  for (store_wire::Request request; store_wire::take(rest, request) == store_wire::Parsed::complete; ++requests) {
    if (table.waits(self)) ++self;
    table.answer(self, request);
  }
  for (StoreTable::Client each = 1; each <= self; ++each) table.leave(each);

  std::string_view answers = text_of(input);
  std::size_t answered = 0;
  for (store_wire::Answer answer; store_wire::take(answers, answer) == store_wire::Parsed::complete; ++answered)
    expect(answer.value.size() <= input.size(), "an answer is longer than what came");
  return requests + answered > 1;
}

}  // namespace tutti::fuzz
