// The names that other libraries give to the tensors of a network.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tutti::engine {

/// Maps `names`, the names of the tensors of model `model` of model_table(), to their names in torchvision.models.
/// Known are alexnet, resnet18, resnet50, vgg16 without normalisation, and googlenet with it, where some filters have
/// another size in torchvision. Returns an empty map for any other network. Throws Error{invalid} for a tensor that the
/// model does not have.
std::map<std::string, std::string> torchvision_names(std::string_view model, std::span<const std::string> names);

}  // namespace tutti::engine
