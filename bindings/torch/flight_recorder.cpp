#include "bindings/torch/flight_recorder.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#if __has_include(<torch/csrc/distributed/c10d/TraceUtils.h>)
#include <torch/csrc/distributed/c10d/TraceUtils.h>
constexpr bool torch_has_one = true;
#else
constexpr bool torch_has_one = false;
#endif

#include "tutti/fork.hpp"

namespace tutti::torch_binding {
namespace {

using c10d::OpType;
using Ranks = std::vector<std::int64_t>;

constexpr const char* format_version = "2.10";  // of torch's dumps

std::size_t wanted_entries() {
  for (const char* const name : {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"})
    if (const char* const text = std::getenv(name); text != nullptr && *text != '\0')
      return static_cast<std::size_t>(std::clamp(std::atol(text), 0L, 10'000'000L));
  return 2000;  // torch's default
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool is_message(OpType type) { return type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE; }

/// Which of a call's tensors are one per rank, which the analyser expects as one tensor.
bool has_list_in(OpType type) {
  return type == OpType::REDUCE_SCATTER || type == OpType::SCATTER || type == OpType::ALLTOALL;
}
bool has_list_out(OpType type) {
  return type == OpType::ALLGATHER || type == OpType::GATHER || type == OpType::ALLTOALL;
}

using Shapes = c10::SmallVector<std::int64_t, 8>;

void add_shape(Shapes& shapes, const at::Tensor& tensor) {
  shapes.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
  shapes.push_back(tensor.dim());
  shapes.append(tensor.sizes().begin(), tensor.sizes().end());
}

/// Describes a list of tensors, one per rank, as torch does: as one tensor of [ranks, sizes...]; or, if they differ, by
/// their number of elements.
void add_list(Shapes& shapes, const Tensors& list) {
  if (list.empty()) return;
  shapes.push_back(static_cast<std::int64_t>(list[0].scalar_type()));
  if (std::ranges::all_of(list, [&](const at::Tensor& one) { return one.sizes() == list[0].sizes(); })) {
    shapes.push_back(list[0].dim() + 1);
    shapes.push_back(static_cast<std::int64_t>(list.size()));
    shapes.append(list[0].sizes().begin(), list[0].sizes().end());
    return;
  }
  std::int64_t elements = 0;
  for (const at::Tensor& one : list) elements += one.numel();
  shapes.push_back(1);
  shapes.push_back(elements);
}

void describe(Shapes& shapes, const Tensors& tensors, bool is_list) {
  shapes.clear();
  if (is_list) return add_list(shapes, tensors);
  for (const at::Tensor& one : tensors) add_shape(shapes, one);
}

/// The name that the analyser knows the call by.
std::string known_name(OpType type, const char* name) {
  switch (type) {
    case OpType::_ALLREDUCE_SPARSE: return "gloo:all_reduce";
    case OpType::ALLREDUCE_COALESCED: return "gloo:allreduce_coalesced";
    case OpType::ALLGATHER_COALESCED: return "gloo:ALLGATHER_coalesced";
    default: return std::string("gloo:") + name;
  }
}

}  // namespace

FlightRecorder& FlightRecorder::instance() {
  static const std::size_t entries = torch_has_one ? wanted_entries() : 0;
  // A forked child makes another one: the mutex of its parent's may be locked.
  static std::mutex making;
  static FlightRecorder* one = nullptr;
  static std::atomic<std::uint64_t> made_in{~std::uint64_t{0}};
  if (made_in.load(std::memory_order_acquire) == fork_generation()) return *one;
  const std::lock_guard lock(making);
  if (made_in.load(std::memory_order_relaxed) != fork_generation()) {
    one = new FlightRecorder(entries);
    made_in.store(fork_generation(), std::memory_order_release);
  }
  return *one;
}

std::shared_ptr<RecordedProcessGroup> FlightRecorder::add(RecordedProcessGroup group) {
  static std::size_t count = 0;  // guarded by the mutex
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& one) { return one.use_count() == 1; });  // gone, and without entries
  group.number = count++;
  return groups_.emplace_back(std::make_shared<RecordedProcessGroup>(std::move(group)));
}

void FlightRecorder::set_rank(int rank) noexcept {
  int unset = -1;
  rank_.compare_exchange_strong(unset, rank);
}

std::vector<FlightRecorder::Entry> FlightRecorder::entries() {
  std::vector<Entry> found;
  const std::lock_guard lock(mutex_);
  const std::uint64_t first = newest_ - std::min<std::uint64_t>(newest_, ring_.size());
  for (std::uint64_t i = first; i < newest_; ++i) found.push_back(ring_[i % ring_.size()]);
  return found;
}

void FlightRecorder::end(Ticket ticket, bool ok, int source) noexcept {
  if (ticket == 0) return;
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[(ticket - 1) % ring_.size()];
  if (entry.ticket != ticket) return;
  entry.retired = true;
  if (!ok) return;
  entry.ended = now();
  if (!is_message(entry.type)) entry.group->done = std::max(entry.group->done, entry.sequence);
  if (entry.type != OpType::RECVANYSOURCE || source < 0) return;
  entry.from = source;
  entry.sequence = ++entry.group->received[source];
}

#if __has_include(<torch/csrc/distributed/c10d/TraceUtils.h>)

FlightRecorder::Ticket FlightRecorder::begin(const std::shared_ptr<RecordedProcessGroup>& group,
                                             const RecordedCall& call) {
  if (!is_on() || group == nullptr) return 0;
  thread_local const auto thread_name = [] {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    return name;
  }();
  static const bool with_cpp = c10d::getCvarBool({"TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK"}, false);
  auto stack = torch::CapturedTraceback::gather(true, true, with_cpp);
  const std::int64_t created = now();
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[newest_ % ring_.size()];
  entry.ticket = ++newest_;
  entry.group = group;
  entry.type = call.type;
  entry.name = call.name;
  entry.from = call.from;
  entry.to = call.to;
  entry.call = ++group->calls;
  entry.sequence = call.sequence;
  if (!is_message(call.type))
    group->newest = std::max(group->newest, call.sequence);
  else if (call.type != OpType::RECVANYSOURCE)
    entry.sequence =
        call.to == group->rank && call.type == OpType::RECV ? ++group->received[call.from] : ++group->sent[call.to];
  entry.stack.swap(stack);
  entry.created = created;
  entry.ended = 0;
  entry.timeout = call.timeout;
  describe(entry.inputs, call.inputs, has_list_in(call.type));
  describe(entry.outputs, call.outputs, has_list_out(call.type));
  entry.thread = std::this_thread::get_id();
  entry.thread_name = thread_name;
  entry.retired = false;
  return entry.ticket;
}

namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;
using List = c10::List<c10::IValue>;

std::string text_of(const Ranks& ranks) { return c10d::ranks_str({ranks.begin(), ranks.end()}); }

/// The sizes of the tensors, or with `types` their types.
List unpacked(const Shapes& shapes, bool types) {
  List all = c10d::new_list();
  for (auto at = shapes.begin(); at != shapes.end();) {
    const auto type = static_cast<c10::ScalarType>(*at++);
    List sizes = c10d::new_list();
    for (std::int64_t left = *at++; left > 0; --left) sizes.push_back(*at++);
    all.push_back(types ? c10::IValue(c10::toString(type)) : c10::IValue(sizes));
  }
  return all;
}

}  // namespace

/// Builds one dump.
struct FlightRecorder::Dump {
  Dict groups = c10d::new_dict();

  void add_group(const std::string& name, const std::string& desc, const Ranks& ranks) const {
    Dict group = c10d::new_dict();
    group.insert("name", name);
    group.insert("desc", desc);
    group.insert("ranks", text_of(ranks));
    groups.insert_or_assign(name, group);
  }

  /// Adds the group of a message's two ranks; returns its name. `call` gets the ranks within it.
  std::string add_pair(const Entry& entry, std::string& call) const {
    const RecordedProcessGroup& group = *entry.group;
    const auto global = [&](int rank) { return group.members[static_cast<std::size_t>(rank)]; };
    const bool from_any = entry.from < 0;
    Ranks ranks = from_any ? group.members : Ranks{global(entry.from), global(entry.to)};
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const auto place = [&](int rank) { return std::to_string(std::ranges::find(ranks, global(rank)) - ranks.begin()); };
    const std::string to = place(entry.to), from = from_any ? to : place(entry.from);
    call = entry.type == OpType::SEND ? "gloo:send " + from + "->" + to : "gloo:recv " + to + "<-" + from;
    std::string name =
        group.name + ":" + (from_any ? "any" : std::to_string(entry.from)) + "->" + std::to_string(entry.to);
    add_group(name, group.desc, ranks);
    return name;
  }

  Dict described(const Entry& entry) const {
    const bool message = is_message(entry.type);
    const auto sequence = static_cast<std::int64_t>(entry.sequence);
    std::string call = known_name(entry.type, entry.name), name = entry.group->name;
    if (message) name = add_pair(entry, call);
    std::ostringstream thread;
    thread << entry.thread;
    Dict dict = c10d::new_dict();
    dict.insert("record_id", static_cast<std::int64_t>(entry.ticket - 1));
    dict.insert("pg_id", static_cast<std::int64_t>(entry.group->number));
    dict.insert("process_group", std::make_tuple(name, entry.group->desc));
    dict.insert("thread_name", std::string(entry.thread_name.data()));
    dict.insert("thread_id", thread.str());
    dict.insert("collective_seq_id", sequence);
    dict.insert("p2p_seq_id", message ? sequence : std::int64_t{0});
    dict.insert("op_id", static_cast<std::int64_t>(entry.call));
    dict.insert("profiling_name", call);
    dict.insert("time_created_ns", entry.created);
    if (entry.ended > 0) dict.insert("duration_ms", static_cast<double>(entry.ended - entry.created) / 1e6);
    dict.insert("input_sizes", unpacked(entry.inputs, false));
    dict.insert("input_dtypes", unpacked(entry.inputs, true));
    dict.insert("output_sizes", unpacked(entry.outputs, false));
    dict.insert("output_dtypes", unpacked(entry.outputs, true));
    dict.insert("state", entry.ended > 0 ? "completed" : "started");
    dict.insert("time_discovered_started_ns", entry.created);
    dict.insert("time_discovered_completed_ns", entry.ended > 0 ? c10::IValue(entry.ended) : c10::IValue());
    dict.insert("retired", entry.retired);
    dict.insert("timeout_ms", static_cast<std::int64_t>(entry.timeout.count()));
    dict.insert("is_p2p", message);
    return dict;
  }
};

std::string FlightRecorder::dump(bool stacks) {
  const Dump dump;
  Dict states = c10d::new_dict();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& group : groups_) {
      dump.add_group(group->name, group->desc, group->members);
      Dict state = c10d::new_dict();
      state.insert("last_enqueued_collective", static_cast<std::int64_t>(group->newest));
      state.insert("last_started_collective", static_cast<std::int64_t>(group->newest));
      state.insert("last_completed_collective", static_cast<std::int64_t>(group->done));
      states.insert_or_assign(std::to_string(group->number), state);
    }
  }
  const std::vector<Entry> found = entries();
  torch::SymbolizedTracebacks symbols;
  std::vector<c10::IValue> frames;
  if (stacks) {
    std::vector<torch::CapturedTraceback*> all;
    for (const Entry& entry : found) all.push_back(entry.stack.get());
    symbols = torch::symbolize(all);
  }
  for (const auto& frame : symbols.all_frames) {
    Dict dict = c10d::new_dict();
    dict.insert("name", frame.funcname);
    dict.insert("filename", frame.filename);
    dict.insert("line", static_cast<std::int64_t>(frame.lineno));
    frames.emplace_back(std::move(dict));
  }
  List list = c10d::new_list();
  for (std::size_t i = 0; i < found.size(); ++i) {
    Dict dict = dump.described(found[i]);
    List stack = c10d::new_list();
    if (stacks)
      for (const std::uint64_t frame : symbols.tracebacks[i]) stack.push_back(frames[frame]);
    dict.insert("frames", stack);
    list.push_back(dict);
  }
  Dict result = c10d::new_dict();
  result.insert("version", format_version);
  result.insert("pg_config", dump.groups);
  result.insert("comm_lib_version", "tutti");
  result.insert("pg_status", states);
  result.insert("entries", list);
  return c10d::pickle_str(result);
}

#else

FlightRecorder::Ticket FlightRecorder::begin(const std::shared_ptr<RecordedProcessGroup>&, const RecordedCall&) {
  return 0;
}
std::string FlightRecorder::dump(bool) { return {}; }

#endif

}  // namespace tutti::torch_binding
