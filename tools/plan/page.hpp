// Page: what `tutti plan` prints.
#pragma once

#include <span>
#include <string>

#include "tools/plan/row.hpp"
#include "tools/plan/verdict.hpp"

namespace tutti::planning {

/// "allreduce of 1 MiB (262,144 f32), 64 ranks on 8 hosts of 8, in blocks".
std::string title(const Request& request);

/// The same for a sweep: "allreduce of 8 B to 256 MiB, 64 ranks on 8 hosts of 8, in blocks".
std::string sweep_title(const Request& request);

/// The call and the network, as every output begins.
void print_call(const Request& request);

/// All about one algorithm, on one screen; `ranking` says why it is chosen, null: it was named.
void print_page(const Request& request, const Row& row, const Verdict& verdict, const Ranking* ranking);

/// A line for each algorithm, with its verdict, if there are any.
void print_ranking(const Request& request, const Ranking& ranking, std::span<const Verdict> verdicts);

/// The rounds of one rank, or of all, in the request's lane. Throws Error{invalid} if there are not so many lanes.
void print_rounds(const Request& request, const Row& row);

}  // namespace tutti::planning
