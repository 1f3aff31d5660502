// Merges: one tensor from those of several members. Pure functions; one thread at a time for each tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::engine::exchange {

/// Whether a parameter is a table of rows, whose mean direction means nothing.
bool is_embedding(std::string_view parameter);

/// sum of weight d / sum of weights.
at::Tensor weighted_mean(std::span<const at::Tensor> deltas, std::span<const double> weights);

/// The mean direction at the mean length: with u = sum of w d / |d|, (sum of w |d| / sum of w) u / |u| (Decoupled
/// DiLoCo 2026). Where directions cancel out, the weighted mean.
at::Tensor radial_mean(std::span<const at::Tensor> deltas, std::span<const double> weights);

/// The sign that most members have; 0 where they are even (Distributed Lion, 2024).
at::Tensor majority_vote(std::span<const at::Tensor> deltas);

/// Both go `part` of the way to each other, from where they were: x -= a (x - c), c += b (x - c) (EASGD, Zhang 2015).
void elastic(const at::Tensor& x, const at::Tensor& centre, double x_part, double centre_part);

/// x becomes the mean of x and what came, by their weights, and the weight their sum (GoSGD; Blot et al. 2016).
void gossip(const at::Tensor& x, double& weight, const at::Tensor& came, double came_weight);

/// A region of workers between them and a global copy (HALoS 2025): local <- (1 - a) local + a global.
void mix(const at::Tensor& local, const at::Tensor& global, double part);

/// Steps of each worker between syncs, by their speeds: floor(H speed / fastest) (DyLU; Liu et al. 2024).
std::vector<std::int64_t> steps_by_speed(std::span<const double> speeds, std::int64_t every);

}  // namespace tutti::engine::exchange
