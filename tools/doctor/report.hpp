// What `tutti doctor` prints: paragraphs, JSON, and timelines for Perfetto.
#pragma once

#include <string>
#include <vector>

#include "collectives/doctor/diagnosis.hpp"

namespace tutti::tools {

/// A job and what the doctor finds of it.
struct Examined {
  std::string job;
  std::vector<doctor::Patient> patients;
  doctor::Diagnosis diagnosis;
  std::vector<doctor::AskedHost> hosts = {};  ///< those that its launcher has asked; empty: none
};

/// "job NAME, 4 ranks of train.py:" and the paragraph, in lines of at most 100 columns.
std::string as_text(const Examined& job);

/// One JSON object per job in an array: the finding, its culprits, and each rank with its last calls.
std::string as_json(const std::vector<Examined>& jobs);

/// The calls of all ranks of the jobs as trace events (chrome://tracing, ui.perfetto.dev): a process per job, a thread
/// per rank, times of one clock.
std::string as_trace(const std::vector<Examined>& jobs);

}  // namespace tutti::tools
