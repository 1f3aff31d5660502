// The C functions for the library as a whole: version, result names, settings, the log.
#include <cstdio>

#include "bindings/c/handles.hpp"
#include "tutti/log.hpp"

namespace tutti::c {
namespace {

static_assert(TUTTI_VERSION == TUTTI_C_MAJOR * 1000000 + TUTTI_C_MINOR * 1000 + TUTTI_C_PATCH);

struct Param {
  std::string key, value, meaning;
};

/// The settings as C texts. Computed once and never destroyed, because callers may keep the texts.
const std::vector<Param>& params() {
  static const auto* const all = [] {
    auto* const list = new std::vector<Param>;
    const Settings settings = Settings::from_environment();
    for (const SettingInfo& row : setting_table())
      list->push_back({std::string(row.key), value_text(settings, row), std::string(row.meaning)});
    return list;
  }();
  return *all;
}

std::string as_text(int version) {
  return std::to_string(version / 1000000) + "." + std::to_string(version / 1000 % 1000) + "." +
         std::to_string(version % 1000);
}

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

int tutti_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = TUTTI_C_MAJOR;
  if (minor != nullptr) *minor = TUTTI_C_MINOR;
  if (patch != nullptr) *patch = TUTTI_C_PATCH;
  return TUTTI_VERSION;
}

const char* tutti_version_string(void) {
  static const std::string text = as_text(TUTTI_VERSION);
  return text.c_str();
}

tutti_result tutti_check(int header_version) {
  return guarded([&] {
    if (header_version <= 0 || header_version / 1000000 != TUTTI_C_MAJOR || header_version > TUTTI_VERSION)
      throw Error(Code::unsupported, "the program was compiled for tutti " + as_text(header_version) +
                                         ", but the library is " + as_text(TUTTI_VERSION) +
                                         "; compile it again, or put the other library in its way");
  });
}

const char* tutti_result_name(tutti_result result) {
  if (result == TUTTI_IN_PROGRESS) return "in_progress";
  if (result < TUTTI_OK || result > TUTTI_INTERNAL) return "unknown";
  return name(static_cast<Code>(result)).data();
}

size_t tutti_param_count(void) { return setting_table().size(); }

tutti_result tutti_param_get(size_t index, const char** key, const char** value, const char** meaning) {
  return guarded([&] {
    if (index >= params().size())
      throw Error(Code::invalid, "there are " + std::to_string(params().size()) + " settings, so none has the index " +
                                     std::to_string(index));
    const Param& one = params()[index];
    if (key != nullptr) *key = one.key.c_str();
    if (value != nullptr) *value = one.value.c_str();
    if (meaning != nullptr) *meaning = one.meaning.c_str();
  });
}

void tutti_set_log(void (*fn)(int level, const char* text, void* user), void* user) {
  guarded([&] {
    if (fn == nullptr) return set_log_handler({});
    set_log_handler([fn, user](LogLevel level, std::string_view text) {
      fn(static_cast<int>(level), std::string(text).c_str(), user);
    });
  });
}

}  // extern "C"
