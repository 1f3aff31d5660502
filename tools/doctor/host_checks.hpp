// `tutti doctor --host`: what this host offers to a job, measured here, and the network to other hosts.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/check.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// Checks this host; takes about half a second.
std::vector<Check> check_host(const Settings& settings);

/// Prints the checks as a table, or as JSON.
void print_checks(std::FILE* to, std::span<const Check> checks, bool json);

/// The entries of a list such as "h1,h2,[fd00::1]"; none for an empty list.
std::vector<std::string> split_hosts(std::string_view list);

/// Checks this host, then TCP between it and each of `hosts`, and prints the result. Returns the exit code: 1 if
/// something is wrong. Throws Error{invalid} if one of `hosts` is no entry of a list for
/// `tutti run --hosts`, where an IPv6 address has brackets.
int run_host_checks(const std::vector<std::string>& hosts, bool json,
                    const Settings& settings = Settings::from_environment());

/// The other side, which run_host_checks() starts on other hosts as `tutti doctor --answer-host-check`: it is told by
/// its stdin what to do, and ends with it. Returns the exit code.
int answer_host_check();

}  // namespace tutti::tools
