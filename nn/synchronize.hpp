// Whole-network verbs: make replicas equal, average their gradients, prove that they are equal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"

namespace torch::nn {
class Module;
}

namespace tutti::nn {

class Site;

// Modules may be on a device; all of one on the same. `site` is where; null: that of their device. A tensor that is
// registered more than once counts once, under its first name.

/// Gives every rank root's parameters and buffers, in a few large broadcasts. Collective; blocks.
void synchronize_parameters(torch::nn::Module& module, Communicator communicator, int root = 0,
                            std::shared_ptr<Site> site = nullptr);

/// What becomes of a module's buffers. Each rank's forward changes its own, such as the running statistics of a
/// BatchNorm, from its own samples.
enum class BufferPolicy {
  broadcast,  ///< every rank gets rank 0's
  average,    ///< floating-point buffers become their mean; the others, such as num_batches_tracked, are rank 0's
  local,      ///< every rank keeps its own
};

/// Makes the buffers of all ranks alike, unless the policy is local, which does nothing. Collective; blocks.
void synchronize_buffers(torch::nn::Module& module, Communicator communicator, BufferPolicy policy,
                         std::shared_ptr<Site> site = nullptr);

/// What average_gradients() found; the same on all ranks.
struct GradientReport {
  std::size_t averaged = 0;
  std::vector<std::string> without_gradient;  ///< parameters that had none on any rank; theirs stay undefined
};

/// Every rank's gradients become their mean. A parameter that has a gradient on some ranks only
/// counts as zero on the others, and gets the mean everywhere. Collective; blocks.
GradientReport average_gradients(torch::nn::Module& module, Communicator communicator,
                                 std::shared_ptr<Site> site = nullptr);

enum class Compared { parameters_and_buffers, parameters };

/// Throws Error{mismatch} on all ranks, naming the first parameter or buffer (in the module's order) that
/// is not bitwise equal everywhere, and the ranks that differ from rank 0. Collective; blocks.
void check_replicas(const torch::nn::Module& module, Communicator communicator,
                    Compared what = Compared::parameters_and_buffers);

}  // namespace tutti::nn
