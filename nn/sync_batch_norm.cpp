// The autograd function does the normalisation only; scale and shift follow as ordinary operations.
#include "nn/sync_batch_norm.hpp"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nn/tensor.hpp"
#include "nn/tensor_device.hpp"

namespace tutti::nn {

class Meeting {
 public:
  explicit Meeting(Communicator communicator) : communicator_(std::move(communicator)) {}

  int size() const noexcept { return communicator_.size(); }
  void sum_up(at::Tensor& values) {
    TensorDevice& here = tensor_device(values.device());
    here.note_computed();
    communicator_.allreduce(buffer(values), sum, here.options()).wait();
  }
  /// Allgather: row r of the result holds the values of rank r.
  at::Tensor gathered(const at::Tensor& values) {
    at::Tensor all = at::empty({communicator_.size(), values.numel()}, values.options());
    TensorDevice& here = tensor_device(values.device());
    here.note_computed();
    communicator_.allgather(buffer(values), buffer(all), here.options()).wait();
    return all;
  }

 private:
  TensorDevice& tensor_device(const at::Device& device) {
    if (!tensor_device_ || tensor_device_->tensors() != device)
      tensor_device_ = tensor_device_of(device, communicator_);
    return *tensor_device_;
  }
  Communicator communicator_;
  std::shared_ptr<TensorDevice> tensor_device_;
};

namespace {

/// Holds a Meeting in an autograd context.
struct Kept : torch::CustomClassHolder {
  explicit Kept(std::shared_ptr<Meeting> one) : meeting(std::move(one)) {}
  std::shared_ptr<Meeting> meeting;
};

/// Statistics per channel over the values of all ranks, in f64.
struct Statistics {
  at::Tensor mean, variance;  ///< the variance is biased: the sum of squares is divided by the count
  double count = 0;
};

std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> axes{0};
  for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
  return axes;
}

/// One value per channel, in a shape that broadcasts against the input.
at::Tensor spread(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

/// The type in which sums are accumulated.
at::ScalarType wide(const at::Tensor& input) { return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Statistics statistics(const at::Tensor& input, Meeting& meeting) {
  const std::int64_t channels = input.size(1), count = input.numel() / channels;
  const auto axes = all_but_channels(input);
  const at::TensorOptions options = input.options().dtype(at::kDouble);
  at::Tensor mine = at::zeros({2 * channels + 1}, options);
  if (count > 0) {
    const at::Tensor values = input.to(wide(input)), mean = values.mean(axes);
    mine[0].fill_(static_cast<double>(count));
    mine.narrow(0, 1, channels).copy_(mean);
    mine.narrow(0, 1 + channels, channels).copy_((values - spread(mean, input)).pow(2).sum(axes));
  }
  const at::Tensor all = meeting.gathered(mine);
  const at::Tensor counts = all.narrow(1, 0, 1), means = all.narrow(1, 1, channels);
  Statistics found;
  found.count = counts.sum().item<double>();
  found.mean = (counts * means).sum(0) / found.count;
  found.variance = (all.narrow(1, 1 + channels, channels) + counts * (means - found.mean).pow(2)).sum(0) / found.count;
  return found;
}

/// Computes y = (input - mean) / sqrt(variance + eps). With n values per channel in all and d the gradient of y, the
/// input's gradient is (d - sum(d) / n - y sum(d y) / n) / sqrt(variance + eps).
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const Statistics& statistics, double eps, std::shared_ptr<Meeting> meeting) {
    const at::Tensor scale = (statistics.variance + eps).rsqrt().to(wide(input));
    const at::Tensor output =
        (input.to(wide(input)) - spread(statistics.mean.to(wide(input)), input)) * spread(scale, input);
    context->save_for_backward({output, scale});
    context->saved_data["count"] = statistics.count;
    context->saved_data["meeting"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(std::move(meeting)));
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &output = saved[0], &scale = saved[1];
    const at::Tensor gradient = gradients[0].to(output.scalar_type());
    const auto axes = all_but_channels(output);
    const std::int64_t channels = output.size(1);
    const double count = context->saved_data["count"].toDouble();
    at::Tensor sums = at::zeros({2, channels}, output.options().dtype(at::kDouble));
    if (output.numel() > 0) {
      sums[0].copy_(gradient.sum(axes));
      sums[1].copy_((gradient * output).sum(axes));
    }
    const auto kept = context->saved_data["meeting"].toCapsule();
    static_cast<Kept&>(*kept).meeting->sum_up(sums);
    const at::Tensor means = (sums / count).to(output.scalar_type());
    const at::Tensor input =
        (gradient - spread(means[0], output) - output * spread(means[1], output)) * spread(scale, output);
    return {input, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(std::int64_t channels)
    : SyncBatchNormImpl(torch::nn::BatchNormOptions(channels)) {}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings) : options(settings) {
  SyncBatchNormImpl::reset();
}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& settings, const at::Tensor& scale,
                                     const at::Tensor& shift, at::Tensor mean, at::Tensor variance, at::Tensor batches)
    : options(settings) {
  keep(scale, shift, std::move(mean), std::move(variance), std::move(batches));
}

void SyncBatchNormImpl::reset() {
  const std::int64_t channels = options.num_features();
  const bool affine = options.affine(), tracks = options.track_running_stats();
  keep(affine ? at::ones({channels}).set_requires_grad(true) : at::Tensor(),
       affine ? at::zeros({channels}).set_requires_grad(true) : at::Tensor(),
       tracks ? at::zeros({channels}) : at::Tensor(), tracks ? at::ones({channels}) : at::Tensor(),
       tracks ? at::zeros({}, at::kLong) : at::Tensor());
}

void SyncBatchNormImpl::keep(const at::Tensor& scale, const at::Tensor& shift, at::Tensor mean, at::Tensor variance,
                             at::Tensor batches) {
  const auto trained = [](const at::Tensor& one) { return one.defined() && one.requires_grad(); };
  weight = register_parameter("weight", scale, trained(scale));
  bias = register_parameter("bias", shift, trained(shift));
  running_mean = register_buffer("running_mean", std::move(mean));
  running_var = register_buffer("running_var", std::move(variance));
  num_batches_tracked = register_buffer("num_batches_tracked", std::move(batches));
}

void SyncBatchNormImpl::connect(const Communicator& communicator) { connect(std::make_shared<Meeting>(communicator)); }

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "tutti::nn::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ", "
         << (meeting_ ? std::to_string(meeting_->size()) + " ranks" : "not connected") << ")";
}

double SyncBatchNormImpl::new_part() {
  if (!num_batches_tracked.defined()) return options.momentum().value_or(0);
  num_batches_tracked.add_(1);
  return options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
}

namespace {

void need_two_values(double count) {
  if (count == 1 || count == 0)
    throw Error(Code::invalid, "BatchNorm takes the variance of more than one value of each channel, but is given " +
                                   std::to_string(static_cast<int>(count)) +
                                   ": leave out the rest of an epoch that is so small");
}

}  // namespace

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options.num_features())
    throw Error(Code::invalid, "SyncBatchNorm of " + std::to_string(options.num_features()) +
                                   " channels takes (samples, channels, any...), not " + c10::str(input.sizes()));
  const bool together = is_training() && meeting_;
  const double part = is_training() ? new_part() : 0;
  if (!together) {
    if (is_training()) need_two_values(static_cast<double>(input.numel() / input.size(1)));
    return at::batch_norm(input, weight, bias, running_mean, running_var, is_training() || !running_mean.defined(),
                          part, options.eps(), at::globalContext().userEnabledCuDNN());
  }
  Statistics found;
  {
    const at::NoGradGuard no_grad;
    found = statistics(input.detach(), *meeting_);
    need_two_values(found.count);
    if (running_mean.defined()) {
      running_mean.mul_(1 - part).add_(found.mean, part);
      running_var.mul_(1 - part).add_(found.variance * (found.count / (found.count - 1)), part);
    }
  }
  const at::Tensor output = Normalise::apply(input, found, options.eps(), meeting_);
  const at::Tensor affine = weight.defined() ? output * spread(weight, input) + spread(bias, input) : output;
  return affine.to(input.scalar_type());
}

namespace {

/// A SyncBatchNorm with the same tensors if `child` is a BatchNorm; else null.
template <class BatchNorm>
std::shared_ptr<SyncBatchNormImpl> copy_of(const torch::nn::Module& child) {
  const auto* norm = dynamic_cast<const BatchNorm*>(&child);
  if (norm == nullptr) return nullptr;
  auto copy = std::make_shared<SyncBatchNormImpl>(norm->options, norm->weight, norm->bias, norm->running_mean,
                                                  norm->running_var, norm->num_batches_tracked);
  copy->train(norm->is_training());
  return copy;
}

std::shared_ptr<SyncBatchNormImpl> synchronous(const torch::nn::Module& child) {
  if (auto copy = copy_of<torch::nn::BatchNorm1dImpl>(child)) return copy;
  if (auto copy = copy_of<torch::nn::BatchNorm2dImpl>(child)) return copy;
  return copy_of<torch::nn::BatchNorm3dImpl>(child);
}

std::size_t convert(torch::nn::Module& module, const std::string& place, const std::shared_ptr<Meeting>& meeting) {
  if (auto* norm = dynamic_cast<SyncBatchNormImpl*>(&module)) {
    norm->connect(meeting);
    return 1;
  }
  std::size_t found = 0, index = 0;
  auto* const chain = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  for (const auto& child : module.named_children()) {
    const std::string name = place.empty() ? child.key() : place + "." + child.key();
    if (const auto norm = synchronous(*child.value())) {
      if (chain == nullptr)
        throw Error(Code::unsupported, "'" + name +
                                           "' is a BatchNorm that only its module's class can exchange: declare it "
                                           "there as tutti::nn::SyncBatchNorm");
      norm->connect(meeting);
      chain->replace_module(child.key(), norm);
      *(chain->begin() + static_cast<std::ptrdiff_t>(index)) = torch::nn::AnyModule(norm);
      ++found;
    } else {
      found += convert(*child.value(), name, meeting);
    }
    ++index;
  }
  return found;
}

}  // namespace

std::size_t convert_sync_batch_norm(torch::nn::Module& module, Communicator communicator) {
  return convert(module, "", std::make_shared<Meeting>(communicator.dup()));
}

}  // namespace tutti::nn
