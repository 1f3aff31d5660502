#include "engine/loop/together.hpp"

#include <filesystem>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/loop/all_or_none.hpp"

namespace tutti::engine {
namespace {

/// No deadline, because other ranks' disks may need any time. If a rank is lost, the calls fail nevertheless.
const CallOptions& until_written() {
  static const CallOptions options{.timeout = no_deadline};
  return options;
}

/// Calls `step` on all ranks. An error starts with the number of its rank, and all ranks throw it, because the others
/// would wait without a deadline.
void on_all(Communicator& ranks, const std::function<void()>& step) {
  const auto named = [&] {
    const std::string who = "rank " + std::to_string(ranks.rank()) + ": ";
    try {
      step();
    } catch (const Error& error) {
      throw Error(error.code() == Code::invalid ? Code::invalid : Code::resource, who + error.what());
    } catch (const std::exception& error) {
      throw Error(Code::resource, who + error.what());
    }
  };
  all_or_none(ranks, named, until_written());
}

/// Returns true when all ranks have called it, so that no rank is writing. Returns false if a rank is lost.
bool none_writes(Communicator& ranks) noexcept {
  try {
    ranks.barrier(until_written()).wait();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// A line for each file: bytes, checksum and name.
std::string lines_of(const Manifest& files) {
  std::string lines;
  for (const auto& [name, sum] : files)
    lines += std::to_string(sum.bytes) + " " + std::to_string(sum.crc32) + " " + name + "\n";
  return lines;
}

Manifest files_of(std::string_view lines) {
  Manifest files;
  std::istringstream in{std::string(lines)};
  FileSum sum;
  for (std::string name; in >> sum.bytes >> sum.crc32 >> name;) files[name] = sum;
  return files;
}

/// Returns the files of all ranks on rank 0, and an empty list on other ranks. Collective.
Manifest all_files(Communicator& ranks, const Manifest& mine) {
  const std::string text = lines_of(mine);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const std::vector<std::int64_t> length{static_cast<std::int64_t>(bytes.size())};
  std::vector<std::int64_t> lengths(ranks.rank() == 0 ? static_cast<std::size_t>(ranks.size()) : 0);
  ranks.gather(length, lengths, 0, until_written()).wait();
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::vector<std::uint8_t> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  ranks.gatherv(bytes, all, counts, 0, until_written()).wait();
  return files_of({reinterpret_cast<const char*>(all.data()), all.size()});
}

void write_parts(Communicator& ranks, const CheckpointStore& store, std::uint64_t step, const RankFiles& mine,
                 bool best) {
  const bool leads = ranks.rank() == 0;
  on_all(ranks, [&] {
    if (!leads) return;
    if (mine.history) mine.history();
    store.begin(step);
  });
  const std::filesystem::path folder = store.unfinished_folder(step);
  Manifest written;
  on_all(ranks, [&] {
    if (!std::filesystem::is_directory(folder))
      throw Error(Code::resource,
                  folder.string() +
                      " is not there: ranks write this checkpoint together, so all of them "
                      "have to see the folder of the run; give run= a shared one (rank 0 alone writes a state "
                      "that all ranks have alike and that is below checkpoint.shard_from)");
    written = mine.stage->write(folder, mine.metadata);
  });
  Manifest all = all_files(ranks, written);
  on_all(ranks, [&] {
    if (!leads) return;
    all.merge(write_files(folder, {.tensors = {}, .texts = mine.texts}));
    write_manifest(folder, all);
    store.commit(step, best);
  });
}

}  // namespace

void write_together(Communicator& ranks, const CheckpointStore& store, std::uint64_t step, const RankFiles& mine,
                    bool best) {
  try {
    write_parts(ranks, store, step, mine, best);
  } catch (const Error& error) {
    mine.stage->abandon();
    const bool all_were_told = error.code() == Code::invalid || error.code() == Code::resource;
    if (all_were_told && none_writes(ranks) && ranks.rank() == 0) store.abandon(step);
    throw;
  } catch (...) {
    mine.stage->abandon();
    throw;
  }
}

}  // namespace tutti::engine
