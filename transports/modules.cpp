// Finds provider modules, opens them, and chooses among modules of the same provider (libtutti_NAME-VARIANT.so).
#include "tutti/provider/provider.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>

#include "tutti/log.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "libtutti_", suffix = ".so";

// The module folder beside libtutti; empty if libtutti is linked statically.
fs::path own_folder() {
  const std::string folder = library_folder();
  return folder.empty() ? fs::path() : fs::path(folder) / "tutti";
}

std::vector<fs::path> folders(const Settings& settings) {
  std::vector<fs::path> found;
  const fs::path own = own_folder();
  if (own.empty()) return found;
  std::istringstream listed(settings.module_path);
  for (std::string folder; std::getline(listed, folder, ':');)
    if (!folder.empty()) found.emplace_back(folder);
  found.push_back(own);
  return found;
}

// "mpi" for libtutti_mpi-openmpi.so; empty if the file is not a module.
std::string module_name(const fs::path& file) {
  std::string text = file.filename();
  if (!text.starts_with(prefix) || !text.ends_with(suffix)) return {};
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  return text.substr(0, text.find('-'));
}

std::vector<fs::path> modules(const Settings& settings) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders(settings)) {
    std::error_code error;
    std::vector<fs::path> here;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (!module_name(entry.path()).empty()) here.push_back(entry.path());
    std::ranges::sort(here);
    std::ranges::move(here, std::back_inserter(files));
  }
  return files;
}

struct Opened {
  const Provider* provider = nullptr;
  std::string reason;
};

Opened open(const fs::path& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  const auto entry = reinterpret_cast<const Module* (*)()>(dlsym(library, "tutti_module"));
  const Module* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr) return {nullptr, file.string() + " is no module: it has no tutti_module()"};
  if (module->abi != module_abi)
    return {nullptr, file.string() + " is made for '" + module->abi + "', but this is '" + std::string(module_abi) +
                         "'; install both from one version"};
  return {module->provider, {}};
}

// Opens a module at the first call and never closes it.
const Opened& opened(const fs::path& file) {
  static std::mutex mutex;
  static auto& all = *new std::map<fs::path, Opened>;
  const std::lock_guard lock(mutex);
  const auto [entry, first] = all.try_emplace(file);
  if (first) {
    entry->second = open(file);
    if (entry->second.provider == nullptr) log(LogLevel::info, entry->second.reason);
  }
  return entry->second;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool has_devices(const fs::path& module) {
  fs::path note = module;
  std::string folder;
  if (std::ifstream in(note.replace_extension(".drives")); !std::getline(in, folder)) return true;
  std::error_code error;
  return fs::directory_iterator(folder, error) != fs::directory_iterator();
}

}  // namespace

std::string library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&provider_names), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  if (fs::equivalent(info.dli_fname, "/proc/self/exe", error) || error) return {};
  return fs::path(info.dli_fname).parent_path();
}

bool is_worth_finding(std::string_view name, const Settings& settings) {
  return std::ranges::any_of(modules(settings),
                             [&](const fs::path& file) { return module_name(file) == name && has_devices(file); });
}

std::vector<std::string> provider_names(const Settings& settings) {
  std::vector<std::string> names;
  for (const Provider* one : providers()) names.emplace_back(one->name);
  for (const fs::path& file : modules(settings))
    if (const std::string name = module_name(file); std::ranges::count(names, name) == 0) names.push_back(name);
  return names;
}

Found find_provider(std::string_view name, const Settings& settings) {
  for (const Provider* one : providers())
    if (one->name == name) return {one, one->viable(settings).reason};
  Found found;
  std::string of_misfits;
  for (const fs::path& file : modules(settings)) {
    if (module_name(file) != name) continue;
    const Opened& module = opened(file);
    const Viability here = module.provider ? module.provider->viable(settings) : Viability{false, module.reason};
    if (here.viable) return {module.provider, {}};
    if (found.provider == nullptr) found.provider = module.provider;
    std::string& reasons = here.misfit ? of_misfits : found.reason;
    if (reasons.find(here.reason) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + here.reason;
  }
  if (found.reason.empty()) found.reason = of_misfits;
  if (found.reason.empty()) {
    const auto names = provider_names(settings);
    found.reason = "there is no provider '" + std::string(name) + "' in this installation, but " + list(names) +
                   (own_folder().empty() ? " (linked statically, it has no modules)" : "");
  }
  return found;
}

}  // namespace tutti
