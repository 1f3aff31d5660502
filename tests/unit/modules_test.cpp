// The modules of this build: each can be opened, and is the provider that its name says.
#include "tutti/provider/provider.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "collectives/route/selector.hpp"

namespace tutti {
namespace {

std::vector<std::string> built_modules() {
  std::istringstream list(TUTTI_BUILT_MODULES);
  std::vector<std::string> names;
  for (std::string name; list >> name;) names.push_back(name.substr(0, name.find('-')));
  return names;
}

// Only checks that the modules are valid; if they can be used depends on the machine.
TEST(Modules, AllThatAreBuiltOpen) {
  const Settings settings;
  const auto known = provider_names(settings);
  for (const std::string& name : built_modules()) {
    EXPECT_EQ(std::ranges::count(known, name), 1) << name;
    const Found found = find_provider(name, settings);
    ASSERT_NE(found.provider, nullptr) << name << ": " << found.reason;
    EXPECT_EQ(found.provider->name, name);
    EXPECT_FALSE(found.provider->meaning.empty()) << name;
    EXPECT_TRUE(found.provider->connect || found.provider->make_backend || found.provider->accelerator) << name;
    EXPECT_EQ(found.provider->make_backend != nullptr, found.provider->algorithms != nullptr) << name;
  }
}

// A rule that names an algorithm that a module's backend does not have is refused, with the same text for each kind.
TEST(Modules, RulesKnowTheirAlgorithms) {
  const Settings settings;
  for (const std::string& name : built_modules()) {
    const Provider* const provider = find_provider(name, settings).provider;
    if (provider == nullptr || provider->algorithms == nullptr) continue;
    const std::vector<std::string> backends{name};
    const auto refusal = [&](const std::string& kind, const std::string& target) -> std::string {
      try {
        (void)parse_rules(kind + ": ..=" + target, "a test", {backends, settings});
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    EXPECT_NE(refusal("*", name + "/nonsense").find(name + " has no algorithm 'nonsense' for any collective"),
              std::string::npos);
    for (int k = 0; k < kind_count; ++k) {
      const auto kind = static_cast<Kind>(k);
      if (kind == Kind::send) continue;
      const std::string word(tutti::name(kind)), why = refusal(word, name + "/nonsense");
      const auto known = provider->algorithms(kind);
      const std::string expected =
          known.empty() ? name + " has no " + word : name + " has no algorithm 'nonsense' for " + word;
      EXPECT_NE(why.find(expected), std::string::npos) << why;
      for (const std::string_view one : known)
        EXPECT_EQ(refusal(word, name + (one.empty() ? "" : "/" + std::string(one))), "");
    }
  }
}

TEST(Modules, WhatIsNotThereIsSaidWithWhatIs) {
  const Found found = find_provider("nothing", Settings());
  EXPECT_EQ(found.provider, nullptr);
  EXPECT_NE(found.reason.find("there is no provider 'nothing' in this installation, but shm, tcp"), std::string::npos)
      << found.reason;
}

// Devices are detected by a folder, so that a job without devices does not load the module, which takes time.
TEST(Modules, AreWorthFindingWhereTheirDevicesAre) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("tutti_modules." + std::to_string(::getpid()));
  fs::create_directories(folder / "devices");
  Settings settings;
  settings.module_path = folder;
  const auto worth = [&] { return is_worth_finding("something", settings); };
  EXPECT_FALSE(worth()) << "not installed";
  std::ofstream(folder / "libtutti_something.so").put('\n');
  EXPECT_TRUE(worth()) << "it needs no device";
  std::ofstream(folder / "libtutti_something.drives") << (folder / "devices").string() << '\n';
  EXPECT_FALSE(worth()) << "there is no device";
  std::ofstream(folder / "devices" / "one").put('\n');
  EXPECT_TRUE(worth());
  fs::remove_all(folder);
}

TEST(Modules, BuiltInProvidersAreFoundByName) {
  for (const Provider* one : providers()) EXPECT_EQ(find_provider(one->name, Settings()).provider, one);
}

}  // namespace
}  // namespace tutti
