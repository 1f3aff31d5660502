#include "bindings/mpi/checking.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "bindings/mpi/library.hpp"
#include "bindings/mpi/translation.hpp"
#include "tutti/log.hpp"

namespace tutti::preload {
namespace {

std::string shown(const std::byte* data, DType dtype, std::size_t i) {
  if (!is_integer(dtype)) return std::to_string(real_at(data, dtype, i));
  const std::size_t width = size_of(dtype);
  std::uint64_t value = 0;
  std::memcpy(&value, data + width * i, width);
  const unsigned unused = 64 - 8 * static_cast<unsigned>(width);
  if (dtype <= DType::i64 && dtype != DType::u8)
    return std::to_string(static_cast<std::int64_t>(value << unused) >> unused);
  return std::to_string(value);
}

/// Number of elements, of the MPI type, of a reduction's input.
std::int64_t input_count(const Call& call, int size) {
  if (call.function == Function::reduce_scatter_block) return call.in.count * size;
  if (call.function != Function::reduce_scatter) return call.in.count;
  std::int64_t total = 0;
  for (int i = 0; i < size; ++i) total += call.out.counts[i];
  return total;
}

/// Index of this rank's part in the whole result.
std::int64_t own_start(const Call& call, int rank) {
  if (call.function == Function::reduce_scatter_block) return call.in.count * rank;
  std::int64_t start = 0;
  if (call.function == Function::reduce_scatter)
    for (int i = 0; i < rank; ++i) start += call.out.counts[i];
  return start;
}

/// The memory that MPI may write. For a reduction in place it includes the whole input.
Output written(const Call& call, const Known& known, const Output& output) {
  if (!is_reduction(call.function) || call.in.data != MPI_IN_PLACE) return output;
  Part all = call.out;
  all.count = input_count(call, known.size);
  all.counts = {};
  return {all};
}

bool is_real(const std::optional<Folding>& folding) noexcept { return folding && !is_integer(folding->dtype); }

bool agree(const std::byte* ours, const std::byte* theirs, std::size_t i, double magnitude,
           const std::optional<Folding>& folding, int size) {
  if (!folding) return ours[i] == theirs[i];
  const std::size_t width = size_of(folding->dtype);
  if (std::memcmp(ours + width * i, theirs + width * i, width) == 0) return true;
  if (!is_real(folding)) return false;
  const double mine = real_at(ours, folding->dtype, i), his = real_at(theirs, folding->dtype, i);
  // The order of additions may decide whether a sum that is not finite is infinite or NaN.
  if (!std::isfinite(his)) return !std::isfinite(mine) || folding->op == Op::min || folding->op == Op::max;
  if (folding->op == Op::min || folding->op == Op::max) return mine == his || std::isnan(mine);
  const bool narrow = folding->dtype == DType::f32;
  const double unit = narrow ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const double least = narrow ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  const double scale = folding->op == Op::sum ? magnitude : std::abs(his);
  return std::abs(mine - his) <= 2 * size * (unit * scale + least);
}

}  // namespace

double real_at(const std::byte* data, DType dtype, std::size_t i) {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, data + 4 * i, 4);
    return value;
  }
  double value = 0;
  std::memcpy(&value, data + 8 * i, 8);
  return value;
}

void compare_results(std::span<const std::byte> ours, std::span<const std::byte> theirs,
                     std::span<const double> magnitudes, const std::optional<Folding>& folding, const Known& known,
                     std::string_view function) {
  const DType dtype = folding ? folding->dtype : DType::u8;
  for (std::size_t i = 0; i < ours.size() / size_of(dtype); ++i) {
    if (agree(ours.data(), theirs.data(), i, magnitudes.empty() ? 0 : magnitudes[i], folding, known.size)) continue;
    log(LogLevel::error,
        std::string(function) + ", element " + std::to_string(i) + ": tutti has " + shown(ours.data(), dtype, i) +
            " and MPI " + shown(theirs.data(), dtype, i) + "; TUTTI_MPI_CHECK ends the job",
        known.rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // MPICH's mpiexec loses output just before the abort
    library().abort(library().handles.world, 1);
  }
}

Comparison::Comparison(const Call& call, const Original& original, const Known& known,
                       const std::optional<Folding>& folding)
    : call_(call), known_(known), folding_(folding) {
  if (is_real(folding_) && folding_->op == Op::sum) note_magnitudes();
  const std::optional<Output> output = output_of(call, known);
  if (!output) {
    result_ = original();
    return;
  }
  const Output all = written(call, known, *output);
  const Side region(all.part, all.blocks);
  std::vector<std::byte> before(region.bytes());
  region.copy_out(before.data());
  output_.emplace(output->part, output->blocks);
  theirs_.resize(output_->bytes());
  result_ = original();
  output_->copy_out(theirs_.data());
  region.copy_in(before.data());
}

void Comparison::note_magnitudes() {
  const auto total = static_cast<std::size_t>(input_count(call_, known_.size) * folding_->width);
  const auto* const data =
      static_cast<const std::byte*>(call_.in.data == MPI_IN_PLACE ? call_.out.data : call_.in.data);
  std::vector<double> mine(total), all(total);
  for (std::size_t i = 0; i < total; ++i) mine[i] = std::abs(real_at(data, folding_->dtype, i));
  library().allreduce(mine.data(), all.data(), static_cast<int>(total), type_of(DType::f64), op_of(Op::sum),
                      call_.comm);
  magnitudes_.assign(all.begin() + own_start(call_, known_.rank) * folding_->width, all.end());
}

void Comparison::compare() const {
  if (!output_) return;
  std::vector<std::byte> ours(output_->bytes());
  output_->copy_out(ours.data());
  compare_results(ours, theirs_, magnitudes_, folding_, known_, function_name(call_.function));
}

}  // namespace tutti::preload
