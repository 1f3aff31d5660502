#include "engine/checkpoint/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/shards.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/config/documents.hpp"
#include "engine/data/files.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* manifest_file = "manifest.json";
constexpr int version = 1;
// Enough for a million ranks with one or two files each. A file takes an object, two numbers and some 100 bytes.
constexpr DocumentLimits manifest_limits{.bytes = std::size_t{256} << 20, .nodes = 20'000'000, .depth = 8};

Manifest read_manifest(const fs::path& file) {
  const Json all = parse_json(read_text(file, manifest_limits.bytes), file.string(), manifest_limits);
  try {
    if (all.at("version").get<int>() != version) refuse(file, "was written by another version of tutti");
    Manifest files;
    for (const auto& [name, sum] : all.at("files").items()) {
      if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
        refuse(file, "names '" + name + "', which is no file of this folder");
      files[name] = {sum.at("bytes").get<std::uint64_t>(), sum.at("crc32").get<std::uint32_t>()};
    }
    return files;
  } catch (const Json::exception& error) {
    refuse(file, std::string("is no manifest of a checkpoint: ") + error.what());
  }
}

void need_regular(const fs::path& file) {
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(file, failed);
  if (!fs::exists(status)) refuse(file, "is missing");
  if (!fs::is_regular_file(status)) refuse(file, "is no regular file");
}

void check_file(const fs::path& file, const FileSum& expected, bool sums) {
  need_regular(file);
  const MappedFile found = map_file(file);
  if (found.bytes != expected.bytes)
    refuse(file, "has " + std::to_string(found.bytes) + " bytes of " + std::to_string(expected.bytes));
  if (sums && crc32_of({found.memory.get(), found.bytes}) != expected.crc32)
    refuse(file, "is damaged: its checksum is wrong");
}

}  // namespace

void write_manifest(const fs::path& folder, const Manifest& files) {
  Json listed = Json::object();
  for (const auto& [name, sum] : files) listed[name] = {{"bytes", sum.bytes}, {"crc32", sum.crc32}};
  AtomicFile out(folder / manifest_file);
  out.write(Json{{"version", version}, {"files", listed}}.dump(1) + "\n");
  out.commit();
}

void verify_checkpoint(const fs::path& folder, bool sums) {
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(folder, failed);
  if (!fs::exists(status)) refuse(folder, "is missing");
  if (!fs::is_directory(status)) refuse(folder, fs::is_symlink(status) ? "is a link elsewhere" : "is no folder");
  const bool listed = fs::exists(fs::symlink_status(folder / manifest_file, failed));
  if (listed) {
    need_regular(folder / manifest_file);
    const Manifest files = read_manifest(folder / manifest_file);
    if (!files.contains(RunState::file)) refuse(folder / manifest_file, "does not name the run's state");
    for (const auto& [name, sum] : files) check_file(folder / name, sum, sums);
  }
  need_regular(folder / RunState::file);
  RunState state = RunState::read(folder / RunState::file);
  if (const auto step = checkpoint_step(folder.filename().string()); step && *step != state.step)
    refuse(folder, "has the state of step " + std::to_string(state.step));
  state.read_past(folder.parent_path(), sums);
  if (listed) return;
  if (state.has_manifest) refuse(folder / manifest_file, "is missing");
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (entry.path().extension() == ".safetensors") Safetensors whole(entry.path());
}

ListedFiles::ListedFiles(fs::path folder) : folder_(std::move(folder)) {
  std::error_code failed;
  const auto has = [&](const char* name) { return fs::exists(fs::symlink_status(folder_ / name, failed)); };
  if (!has(manifest_file) || !(has(RunState::file) || has(shards_file))) return;
  need_regular(folder_ / manifest_file);
  files_ = read_manifest(folder_ / manifest_file);
}

bool ListedFiles::check(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) return false;
  if (!checked_.contains(name)) check_file(folder_ / name, found->second, true);
  checked_.insert(name);
  return true;
}

std::string fault_of(const fs::path& folder, bool sums) {
  try {
    verify_checkpoint(folder, sums);
    return {};
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return folder.string() + ": " + error.what();
  }
}

}  // namespace tutti::engine
