#include "bindings/torch/flight_dump.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <span>

#include "bindings/torch/flight_recorder.hpp"
#include "bindings/torch/group.hpp"
#include "tutti/clock.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

#if __has_include(<torch/csrc/distributed/c10d/FlightRecorder.hpp>)
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#endif

namespace tutti::torch_binding::flight_dump {
namespace {

using namespace std::chrono_literals;

constexpr std::array<char, 16> request{"tutti FR dump"};
constexpr auto patience_for_stacks = 5s;  // a thread may keep the GIL
constexpr auto patience = 10s;
constexpr auto between_dumps = 1s;  // several ranks may report one failure

/// The path of a dump without the rank at its end.
std::string prefix() {
  for (const char* const name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})
    if (const char* const text = std::getenv(name); text != nullptr && *text != '\0') return text;
  return {};
}

std::future<std::string> dump_aside() {
  std::packaged_task<std::string()> task([] { return FlightRecorder::instance().dump(true); });
  auto result = task.get_future();
  start_thread("dumps the flight recorder", std::move(task)).detach();
  return result;
}

#if __has_include(<torch/csrc/distributed/c10d/FlightRecorder.hpp>)
bool is_allowed() { return c10d::getCvarBool({"TORCH_NCCL_DUMP_ON_TIMEOUT"}, true); }

void write(const std::string& trace) {
  const int rank = FlightRecorder::instance().rank();
  c10d::DebugInfoWriter& writer = c10d::DebugInfoWriter::getWriter(rank);
  const std::string file = writer.getWriterTarget();
  if (file == prefix() + std::to_string(rank) && !std::ofstream(file, std::ios::app))
    return log(LogLevel::warn,
               "cannot write the flight recorder to '" + file +
                   "': let TORCH_FR_DUMP_TEMP_FILE begin with a folder that exists and can be written to",
               rank);
  writer.write(trace);
  const std::filesystem::path beginning = prefix();
  log(LogLevel::warn,
      "a process group has failed, and the last calls of this rank are in '" + file +
          "': read those of all ranks with python -m torch.distributed.flight_recorder.fr_trace " +
          (beginning.has_parent_path() ? beginning.parent_path().string() : ".") + " -p " +
          beginning.filename().string(),
      rank);
}
#else
bool is_allowed() { return false; }
void write(const std::string&) {}
#endif

/// Dumps, unless that was done after the failure, or shortly before it.
void write_dump(Clock::time_point failed) {
  static std::mutex one_at_a_time;
  static std::optional<Clock::time_point> newest;
  const std::lock_guard lock(one_at_a_time);
  if (newest && failed - *newest < between_dumps) return;
  try {
    std::future<std::string> with_stacks = dump_aside();
    const bool came = with_stacks.wait_for(patience_for_stacks) == std::future_status::ready;
    write(came ? with_stacks.get() : FlightRecorder::instance().dump(false));
  } catch (const std::exception& error) {
    log(LogLevel::warn, std::string("cannot dump the flight recorder: ") + error.what());
  }
  newest = Clock::now();
}

std::future<void> write_aside() {
  std::packaged_task<void()> task([failed = Clock::now()] { write_dump(failed); });
  auto done = task.get_future();
  start_thread("writes the flight recorder", std::move(task)).detach();
  return done;
}

bool is_wanted() { return FlightRecorder::instance().is_on() && !prefix().empty() && is_allowed(); }

}  // namespace

void listen(Communicator& world) {
  world.on_control([](int, ConstBytes message) {
    if (message.size() == request.size() && std::memcmp(message.data(), request.data(), request.size()) == 0 &&
        is_wanted())
      write_aside();
  });
}

void group_failed(Code why) noexcept {
  try {
    const bool is_of_program = why == Code::aborted || why == Code::invalid || why == Code::unsupported;
    if (is_of_program || !is_wanted()) return;
    const std::future<void> done = write_aside();
    worlds::tell_all(std::as_bytes(std::span(request)));
    done.wait_for(patience);
  } catch (const std::exception& error) {
    log(LogLevel::warn, std::string("cannot dump the flight recorder: ") + error.what());
  }
}

}  // namespace tutti::torch_binding::flight_dump
