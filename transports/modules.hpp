// Modules: providers in shared libraries that are opened on demand.
//
// libtutti_NAME.so, or libtutti_NAME-VARIANT.so for a name with several variants (the two families of MPI), is in the
// folder tutti/ beside libtutti, or in a folder of TUTTI_MODULE_PATH. A program linked statically with tutti has no
// modules. libtutti_NAME.drives beside a module names the folder in which the kernel lists the module's devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transports/provider.hpp"

namespace tutti {

/// Changes with every change of a header that modules are compiled with: of transports/*.hpp and transports/core/, not
/// of a provider's folder, as for its settings.
inline constexpr std::string_view module_abi = "tutti module 17";

/// The result of a module's tutti_module(). `abi` must stay the first member in all versions, so that a module of
/// another version is refused with a message instead of crashing.
struct Module {
  const char* abi = module_abi.data();
  const Provider* provider = nullptr;
};

/// A provider by name, and why it does not work; of several variants, the first viable one.
struct Found {
  const Provider* provider = nullptr;
  std::string reason;  ///< a clause; empty where it is viable
};

/// Opens the modules of that name at the first call; they are never closed. Any thread.
Found find_provider(std::string_view name, const Settings& settings);

/// Whether a module that no setting names is worth opening: it is installed and, if it needs devices, this host has
/// some. Opens nothing. Any thread.
bool is_worth_finding(std::string_view name, const Settings& settings);

/// The folder of libtutti; empty if it is linked statically.
std::string library_folder();

/// Names of the built-in providers and of the installed modules, in order of preference; opens nothing.
std::vector<std::string> provider_names(const Settings& settings);

}  // namespace tutti

/// Every module defines it, as its only exported symbol.
extern "C" __attribute__((visibility("default"))) const tutti::Module* tutti_module();
