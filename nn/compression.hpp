// Compression: gradients travel as something smaller, which becomes nearly their mean again on the other side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/encoding.hpp"
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

/// A bucket's parameters and their element type, as formulas ask for them.
struct BucketShape {
  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t width = 4;  ///< bytes of an element
  std::int64_t count() const;
};

/// A kind of compression, the same on all ranks. Derive from this, and from Codec, for one of your own.
class Compression {
 public:
  virtual ~Compression() = default;

  /// Collective. The bucket's tensors are shared with the GradientSync, and `exchange` is the bucket's own.
  virtual std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const = 0;

  virtual std::string describe() const = 0;  ///< "f16", "PowerSGD of rank 2"

  /// What a rank gives to collectives for a bucket, by the formula of the compression; -1 where there is none.
  virtual std::int64_t bytes(const BucketShape& bucket, std::int64_t ranks) const {
    static_cast<void>(bucket), static_cast<void>(ranks);
    return -1;
  }
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
/// With a `feedback` below 1 only that part of it is added.
std::shared_ptr<const Compression> top_k_compression(double part, double feedback = 1);

struct PowerSgdOptions {
  std::int64_t rank = 2;    ///< of the product of two matrices that takes a gradient's place; from 1 up
  double least_saving = 1;  ///< a matrix that would not become so many times smaller goes as it is; 0: none does
  std::uint64_t seed = 1;   ///< of the first matrices; the same on all ranks
  double feedback = 1;      ///< of what the product lacked, the part that is added the next time
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

/// Values travel by an encoding; of what it left out, the part `feedback` is added the next time (0 to 1, else
/// Error{invalid}). Where it can be encoded again (Encoding::block() > 0) it is an allreduce that travels encoded, and
/// is folded in f32: an alltoall, in which each rank gets its block from all, and an allgather of the blocks' means,
/// which are off by the encoding's error once more. Otherwise it is an allgather.
///
///   bytes given per rank and bucket, with p ranks: (p + 1) b, b of a block of encoded_block() values; or those of the
///   whole bucket. Of the former a rank sends 2 (p - 1) b.
///
/// Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Tang et al., "DoubleSqueeze", ICML 2019.
std::shared_ptr<const Compression> encoded_compression(EncodingPtr encoding, double feedback = 1);

/// Values of each rank's block, for so many in all: whole chunks of `scale`.
std::int64_t encoded_block(std::int64_t count, std::int64_t ranks, std::int64_t scale);

struct MaskOptions {
  double part = 0.005;       ///< of a bucket's values, above 0 and at most 1; at least one value
  std::uint64_t seed = 1;    ///< of the masks; the same on all ranks
  double feedback = 1;       ///< of what was not sent, the part that is added the next time
  bool keep_others = false;  ///< values out of the mask stay as they are, for parameters; else they become 0
};

/// mask_size() values, others each time, are averaged. Which ones is drawn from the seed on every rank: slices of a
/// permutation, so that each value has its turn once in 1 / part times, rounded up.
///
///   elements given to allreduce: mask_size(), in the last slice of a permutation those that are left
///
/// SPARTA (Baioumy and Cheema 2025).
std::shared_ptr<const Compression> mask_compression(const MaskOptions& options);
std::int64_t mask_size(std::int64_t count, double part);

}  // namespace tutti::nn
