// Modules: providers in libraries of their own, opened when they are first asked for.
//
// libtutti_NAME.so, or libtutti_NAME-VARIANT.so where one name has several (the two families of MPI), lies in the
// folder tutti/ beside libtutti, or in one of TUTTI_MODULE_PATH. A program that is linked statically with tutti has
// none. libtutti_NAME.drives beside a module names the folder where the kernel lists the devices that it is for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transports/provider.hpp"

namespace tutti {

/// Changes whenever a header that a module is compiled with does.
inline constexpr std::string_view module_abi = "tutti module 15";

/// What a module hands over, by tutti_module(). `abi` stays the first member for ever, so that a module of another
/// version is refused with a sentence and not with a crash.
struct Module {
  const char* abi = module_abi.data();
  const Provider* provider = nullptr;
};

/// A provider by name, and why there is none that works; of several variants the first viable one.
struct Found {
  const Provider* provider = nullptr;
  std::string reason;  ///< a clause; empty where it is viable
};

/// Opens the modules of that name at the first call; they are never closed. Any thread.
Found find_provider(std::string_view name, const Settings& settings);

/// Whether a module that nobody named is worth opening: it is installed, and where it is for devices, this host has
/// some. Opens nothing. Any thread.
bool is_worth_finding(std::string_view name, const Settings& settings);

/// Where libtutti lies; empty where it is a part of the program.
std::string library_folder();

/// Names of the built-in providers and of the modules that are there, in order of preference; opens nothing.
std::vector<std::string> provider_names(const Settings& settings);

}  // namespace tutti

/// Every module defines it; nothing else of a module is seen from outside.
extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module();
