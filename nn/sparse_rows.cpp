#include "nn/sparse_rows.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/tensor.hpp"

namespace tutti::nn {
namespace {

constexpr std::int64_t none = -1, dense = -2;  // sent instead of the count: no gradient, or a dense one

void gather_one(const at::Tensor& parameter, const std::vector<std::int64_t>& all_counts, double factor,
                Communicator& communicator, SyncStats& stats) {
  std::vector<std::size_t> counts, elements;
  std::int64_t total = 0;
  const auto row = static_cast<std::size_t>(parameter.numel() / std::max<std::int64_t>(parameter.size(0), 1));
  for (const std::int64_t each : all_counts) {
    counts.push_back(static_cast<std::size_t>(std::max<std::int64_t>(each, 0)));
    elements.push_back(counts.back() * row);
    total += static_cast<std::int64_t>(counts.back());
  }
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  sizes[0] = 0;
  at::Tensor places = at::empty({0}, parameter.options().dtype(at::kLong)),
             rows = at::empty(sizes, parameter.options());
  if (const at::Tensor& gradient = parameter.grad(); gradient.defined()) {
    const at::Tensor mine = gradient.coalesce();
    places = mine.indices()[0].contiguous();
    rows = mine.values().mul(factor).contiguous();
  }
  sizes[0] = total;
  at::Tensor all_places = at::empty({total}, places.options()), all_rows = at::empty(sizes, rows.options());
  communicator.allgatherv(buffer(places), buffer(all_places), counts).wait();
  communicator.allgatherv(buffer(rows), buffer(all_rows), elements).wait();
  stats.collectives += 2;
  stats.bytes += places.nbytes() + rows.nbytes();
  all_rows.div_(communicator.size());
  parameter.mutable_grad() = at::sparse_coo_tensor(all_places.unsqueeze(0), all_rows, parameter.sizes()).coalesce();
}

}  // namespace

void average_rows(std::span<const NamedTensor> parameters, double factor, Communicator& communicator,
                  SyncStats& stats) {
  if (parameters.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> mine;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    mine.push_back(!gradient.defined() ? none : gradient.is_sparse() ? gradient.coalesce()._nnz() : dense);
  }
  const auto size = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> all(size * mine.size());
  communicator.allgather(mine, all).wait();
  ++stats.collectives;
  stats.bytes += mine.size() * sizeof(std::int64_t);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::int64_t> counts;
    bool any = false;
    for (std::size_t r = 0; r < size; ++r) {
      counts.push_back(all[r * mine.size() + i]);
      any = any || counts.back() != none;
      if (counts.back() == dense)
        throw Error(Code::unsupported, "'" + parameters[i].first + "' has a dense gradient on rank " +
                                           std::to_string(r) + ": leave it out of BucketOptions::sparse");
    }
    if (any) gather_one(parameters[i].second, counts, factor, communicator, stats);
  }
}

}  // namespace tutti::nn
