#include "engine/strategies/server_axes.hpp"

#include "engine/strategies/axes.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

}  // namespace

std::vector<OptionInfo> server_axis_options() {
  return {
      {"masters", Kind::whole, "0",
       "how=server: ranks that keep the parameters and do nothing else; 0: all keep a part", 0},
      {"processes", Kind::whole, "1", "how=server: ranks of each worker, which average their gradients in every step",
       1},
      {"submasters", Kind::whole, "0",
       "how=server: ranks that each keep the parameters of a group of workers, under rank 0, the top master; 0: no "
       "groups",
       0},
      {"submaster_every", Kind::whole, "1",
       "how=server: updates of a group's parameters from one exchange with the top master to the next", 1},
      {"joins", Kind::whole, "0",
       "how=server: workers that may join while training runs, each by `tutti train --join RUN`", 0},
      {"prefetch", Kind::whole, "0", "how=server: steps from fetching the parameters to using them", 0},
      {"elastic_force", Kind::number, "0", "how=server: elastic times the workers (beta), in place of elastic", 0},
      {"elastic_here", Kind::number, "-1", "how=server: elastic of the worker's side alone; -1: the same", -1},
      {"kappa", Kind::number, "2", "outer=gem: how far beyond its own the worker's momentum goes", 0},
      {"stale", Kind::text, "take",
       "how=server: updates from an older centre are taken, or rejected above most_stale, or damped: divided by 1 + "
       "age"},
      {"most_stale", Kind::whole, "0", "stale=reject: the age, in updates, that is still taken", 0},
      {"grace", Kind::number, "0", "how=server: seconds that a round waits for others beyond its quorum", 0},
      {"silence", Kind::number, "60",
       "how=server: seconds after which a worker from which nothing is heard counts as dead; 0: never", 0},
  };
}

ServerAxes read_server_axes(const Options& options) {
  ServerAxes axes;
  axes.masters = options.whole("masters");
  axes.processes = options.whole("processes");
  axes.submasters = options.whole("submasters");
  axes.submaster_every = options.whole("submaster_every");
  axes.joins = options.whole("joins");
  axes.prefetch = options.whole("prefetch");
  axes.elastic_force = options.number("elastic_force");
  axes.elastic_here = options.number("elastic_here");
  axes.kappa = options.number("kappa");
  axes.stale = options.text("stale");
  axes.most_stale = options.whole("most_stale");
  axes.grace = options.number("grace");
  axes.silence = options.number("silence");
  return axes;
}

void check_server_axes(const Axes& axes) {
  const bool deltas = axes.what == Axes::What::deltas, gradients = axes.what == Axes::What::gradients;
  const bool elastic = axes.merge == Axes::Merge::elastic;
  if (elastic != (axes.what == Axes::What::parameters))
    refuse("strategy.how=server: parameters go with strategy.merge=elastic, and elastic with strategy.what=parameters");
  if (axes.merge == Axes::Merge::vote || axes.merge == Axes::Merge::gossip)
    refuse("strategy.how=server is for strategy.merge=mean, sum, tokens, radial or elastic");
  if (gradients && (axes.merge != Axes::Merge::mean || axes.outer != Axes::Outer::none))
    refuse("strategy.what=gradients at a server: masters step by the optimizer; leave merge and outer out");
  if (elastic && axes.outer != Axes::Outer::none)
    refuse("strategy.merge=elastic moves the centre itself: leave strategy.outer out");
  if (axes.when != Axes::When::every || axes.fragments > 1 || axes.codec.kind != CodecChoice::Kind::none ||
      axes.inner != Axes::Inner::keep || axes.dense_steps > 0)
    refuse(
        "strategy.how=server exchanges all parameters as they are every so many steps: leave when, fragments, codec, "
        "inner and dense_steps out");
  const bool late = axes.apply == Axes::Apply::late;
  if (!late && axes.apply != Axes::Apply::blocking)
    refuse("strategy.how=server is for strategy.apply=blocking or late");
  if (late != (axes.delay > 0) || (late && (!deltas || axes.outer == Axes::Outer::gem)))
    refuse("strategy.apply=late is for strategy.what=deltas, and says with strategy.delay how late");
  if (axes.delay >= axes.every && late) refuse("strategy.delay: make it less than strategy.every");
  if (axes.server.prefetch > 0 && (deltas || axes.server.prefetch >= axes.every))
    refuse("strategy.prefetch is for gradients and for elastic, and less than strategy.every");
  if (axes.members == Axes::Members::quorum && axes.server.masters > 1)
    refuse(
        "strategy.members=quorum: several masters would have rounds of different workers, which then wait for one "
        "another; say strategy.masters=1");
  if (axes.server.submasters > 0 && axes.server.masters > 1)
    refuse("strategy.submasters has one top master, and one master for each group: leave strategy.masters out");
  if (axes.server.submasters == 0 && axes.server.submaster_every > 1)
    refuse("strategy.submaster_every is for groups: say strategy.submasters, or leave it out");
  if (axes.server.joins > 0 && axes.server.submasters > 0)
    refuse("strategy.joins is for runs without groups: leave strategy.submasters out");
  if (axes.server.joins > 0 && axes.server.processes > 1)
    refuse("strategy.joins: a worker that joins is one process, so say strategy.processes=1");
  if (axes.server.joins > 0 && axes.server.elastic_force > 0)
    refuse("strategy.elastic_force is for a number of workers that stays: with strategy.joins say strategy.elastic");
  if (axes.server.stale != "take" && axes.server.stale != "reject" && axes.server.stale != "damp")
    refuse("strategy.stale=" + axes.server.stale + ": expected take, reject or damp");
  if (axes.server.stale != "take" && (elastic || axes.outer == Axes::Outer::gem))
    refuse("strategy.stale is for masters that step by gradients or deltas: leave it out");
  if (axes.outer == Axes::Outer::gem && axes.members != Axes::Members::any)
    refuse("strategy.outer=gem has no rounds: say strategy.members=any");
}

}  // namespace tutti::engine
