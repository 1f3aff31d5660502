// Compression: gradients travel as something smaller, which becomes nearly their mean again on the other side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

/// The gradients of one bucket, all of one element type.
struct FlatBucket {
  at::Tensor gradients;            ///< (count): one parameter's after the other's
  std::vector<NamedTensor> parts;  ///< views of these, in that order: each parameter's name and shape
};

/// What a compression does with one bucket, and keeps of it from step to step. One thread at a time.
///
/// In each step start() is called once, when the gradients of this rank are there, and advance() whenever the
/// collectives that were begun are done, until it says that the mean is there. A rank's own factor is in the gradients
/// already; absent gradients are zero.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Begins collectives. On autograd's thread, while backward goes on.
  virtual void start(Exchange& exchange) = 0;

  /// True: the bucket's gradients are now the mean, bitwise equal on all ranks. False: more collectives were begun.
  virtual bool advance(Exchange& exchange) = 0;

  /// This rank's tensors that later steps depend on, by parameter, as in "fc1.weight.error": borrowed. What is copied
  /// into them restores the state.
  virtual std::vector<NamedTensor> state() const { return {}; }
};

/// A kind of compression, the same on all ranks. Derive from this, and from Codec, for one of your own.
class Compression {
 public:
  virtual ~Compression() = default;

  /// Collective. The bucket's tensors are shared with the GradientSync, and `exchange` is the bucket's own.
  virtual std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const = 0;

  virtual std::string describe() const = 0;  ///< "f16", "PowerSGD of rank 2"
};

/// Gradients are rounded to f16 or bf16 and averaged as such. What has two bytes or fewer goes as it is. f16 overflows
/// above 65504. Throws Error{invalid} for another type.
std::shared_ptr<const Compression> cast_compression(DType wire);

/// Of each bucket the largest `part` of the elements by magnitude, at least one, in an allgather; what was left out is
/// added in the next step (error feedback). 0 < part <= 1, else Error{invalid}.
///
///   bytes sent per rank and bucket: k (width + 4), rounded up to 8, with k = ceil(part count)
///
/// Stich et al., "Sparsified SGD with Memory", NeurIPS 2018.
std::shared_ptr<const Compression> top_k_compression(double part);

struct PowerSgdOptions {
  std::int64_t rank = 2;    ///< of the product of two matrices that takes a gradient's place; from 1 up
  double least_saving = 1;  ///< a matrix that would not become so many times smaller goes as it is; 0: none does
  std::uint64_t seed = 1;   ///< of the first matrices; the same on all ranks
};

/// A gradient of n rows and m columns (all but the first dimension) travels as two matrices, (n, r) and (m, r), in one
/// allreduce of each for a bucket. One of the two begins as the last step's (warm start); what the product lacks is
/// added in the next step (error feedback). Vectors go as they are. Ranks are bitwise equal where their processors are
/// of one kind.
///
///   elements given to allreduce: (n + m) r for each matrix, with r = min(rank, n, m)
///
/// Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019.
std::shared_ptr<const Compression> power_sgd_compression(const PowerSgdOptions& options = {});

}  // namespace tutti::nn
