// The calls of a worker on one buffer.
#include <algorithm>

#include "collectives/parameter_server/parameters.hpp"
#include "collectives/parameter_server/sharding.hpp"

namespace tutti {
namespace {

std::string text_of(const Range& range) {
  return "[" + std::to_string(range.offset) + ", " + std::to_string(range.end()) + ")";
}

// The bytes of the elements `of` in a buffer that holds the elements `range`.
template <class B>
auto part(const B& buffer, const Range& range, const Range& of) {
  const std::size_t width = size_of(buffer.dtype);
  return buffer.view().subspan((of.offset - range.offset) * width, of.count * width);
}

}  // namespace

const std::string& Parameters::name() const noexcept { return state_->opening.name; }
std::size_t Parameters::count() const noexcept { return state_->opening.count; }
DType Parameters::dtype() const noexcept { return state_->opening.dtype; }
const std::vector<Range>& Parameters::shards() const noexcept { return state_->opening.shards; }

void Parameters::State::check(std::string_view what, const Range& range, const ConstBuffer* data,
                              const Buffer* into) const {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid, "parameter server: " + std::string(what) + " '" + opening.name + "': " + why);
  };
  if (range.end() > opening.count || range.end() < range.offset)
    refuse(text_of(range) + " is not within its " + std::to_string(opening.count) + " elements");
  for (const Device& device : {data ? data->device : Device(), into ? into->device : Device()})
    if (device.kind != Device::Kind::cpu) refuse("copy to host memory first, as servers exchange nothing else");
  if (data && is_integer(data->dtype))
    refuse("the data are " + std::string(tutti::name(data->dtype)) + "; pass floating point");
  if (into && into->dtype != opening.dtype)
    refuse("the values are " + std::string(tutti::name(opening.dtype)) +
           ", and so must be the buffer for them, which is " + std::string(tutti::name(into->dtype)));
  if (data && into && data->count != into->count)
    refuse("there are " + std::to_string(data->count) + " elements of data, but room for " +
           std::to_string(into->count) + " values");
}

// Sends the request to every server whose shard overlaps the range. The lock gives the requests of this worker the same
// order at all servers.
Request Parameters::State::exchange(const Call& call) {
  auto state = std::make_shared<Request::State>(outbox, call.what + " '" + opening.name + "'");
  state->seen = seen;
  state->reads = call.into != nullptr;
  protocol::Request head{.verb = call.verb,
                         .dtype = static_cast<std::uint32_t>(call.data ? call.data->dtype : opening.dtype),
                         .instance = id,
                         .rule = call.rule,
                         .tokens = call.meta.tokens,
                         .steps = call.meta.steps,
                         .factor = call.meta.factor};
  const std::lock_guard lock(outbox->order());
  const auto meets = [&](const Range& shard) { return common(shard, call.range).count > 0; };
  outbox->number(head, static_cast<std::size_t>(std::ranges::count_if(opening.shards, meets)));
  for (std::size_t server = 0; server < opening.shards.size(); ++server) {
    const Range mine = common(opening.shards[server], call.range);
    if (mine.count == 0) continue;
    const ConstBytes payload = call.data ? part(*call.data, call.range, mine) : ConstBytes();
    const Bytes into = call.into ? part(*call.into, call.range, mine) : Bytes();
    head.offset = mine.offset;
    head.count = mine.count;
    head.bytes = payload.size();
    head.values = into.size();
    const ShardVersion known = seen->at(server);
    const bool is_given = call.meta.version != PushMeta::unknown_version;
    head.epoch = is_given ? protocol::present_epoch : known.epoch;
    head.version = is_given ? call.meta.version : known.version;
    state->parts.push_back(std::make_unique<RequestPart>(outbox->links()[server], head, payload, into));
  }
  return Request(std::move(state));
}

Request Parameters::push(std::string_view rule, ConstBuffer data, const PushOptions& options) const {
  const Range range{options.offset, data.count};
  state_->check("push to", range, &data, nullptr);
  return state_->exchange({.verb = protocol::Verb::push,
                           .what = "push '" + std::string(rule) + "' to",
                           .rule = protocol::id_of(rule),
                           .range = range,
                           .data = &data,
                           .meta = options.meta});
}

Request Parameters::push(std::string_view rule) const {
  return state_->exchange({.verb = protocol::Verb::push,
                           .what = "push '" + std::string(rule) + "' to",
                           .rule = protocol::id_of(rule),
                           .range = {0, count()}});
}

Request Parameters::pull(Buffer into, std::size_t offset) const {
  const Range range{offset, into.count};
  state_->check("pull of", range, nullptr, &into);
  return state_->exchange({.verb = protocol::Verb::pull, .what = "pull of", .range = range, .into = &into});
}

Request Parameters::push_pull(std::string_view rule, ConstBuffer data, Buffer into, const PushOptions& options) const {
  const Range range{options.offset, data.count};
  state_->check("push_pull of", range, &data, &into);
  return state_->exchange({.verb = protocol::Verb::push_pull,
                           .what = "push_pull '" + std::string(rule) + "' of",
                           .rule = protocol::id_of(rule),
                           .range = range,
                           .data = &data,
                           .into = &into,
                           .meta = options.meta});
}

void Parameters::free() {
  (void)ask_all(state_->outbox,
                {.verb = protocol::Verb::free, .what = "free '" + name() + "'", .instance = state_->id});
}

}  // namespace tutti
