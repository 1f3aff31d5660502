// Page: the text output of `tutti plan`.
#pragma once

#include <span>
#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/verdict.hpp"

namespace tutti::planning {

/// Returns "allreduce of 1 MiB (262,144 f32), 64 ranks on 8 hosts of 8, in blocks".
std::string title(const Request& request);

/// Returns the title of a sweep: "allreduce of 8 B to 256 MiB, 64 ranks on 8 hosts of 8, in blocks".
std::string sweep_title(const Request& request);

/// Prints the call and the network, with which every output begins.
void print_call(const Request& request);

/// Prints everything about one algorithm, on one screen. `ranking` tells why it was chosen; null if the user named it.
void print_page(const Request& request, const Row& row, const Verdict& verdict, const Ranking* ranking);

/// Prints a line for each algorithm, with its verdict if `verdicts` is not empty.
void print_ranking(const Request& request, const Ranking& ranking, std::span<const Verdict> verdicts);

/// Prints the rounds of one rank, or of all, in lane `request.lane`. Throws Error{invalid} if there is no such lane.
void print_rounds(const Request& request, const Row& row);

}  // namespace tutti::planning
