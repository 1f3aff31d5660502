"""The runs that are compared. A name is FOLDER/WHAT-RANKS; `--only` and `--expect` look for it.

A run must not depend on which rank comes first, or it could not be compared. With masters that holds for one worker, and for
several that meet in rounds (strategy.members=all). What is applied late waits for its answer only in workers of several ranks
(strategy.processes=2); a worker of one rank takes it when it is there. Left out, as their bits depend on time: several workers
with strategy.members=any or quorum, gem with several workers (it has no rounds), strategy.joins and strategy.grace.
"""

from typing import NamedTuple

PEERS = {
    "bsp": [], "dsgd": [], "gradients": [], "local-sgd": ["strategy.every=4"],
    "post-local-sgd": ["strategy.every=3", "strategy.dense_steps=5"],
    "diloco": ["strategy.every=4"], "streaming-diloco": ["strategy.every=12", "strategy.fragments=4"],
    "eager-diloco": ["strategy.every=4"], "noloco": ["strategy.every=3"], "sparseloco": ["strategy.every=4"],
    "sparta": ["strategy.codec=mask:0.1"], "gosgd": ["strategy.probability=0.3"], "parameters": ["strategy.every=3"], "avg": [],
    "cdd": ["lr=0.02"],
}
CODECS = ["f16", "bf16", "int8:32", "e3m0:32", "2bit:32", "sign:32", "top_k:0.1", "top_k:2/16", "top_k:4/64+2bit", "mask:0.1",
          "dct:8/16", "power_sgd:2"]
OUTER = {"none": [], "sgd": [], "heavyball": ["strategy.outer_momentum=0.8"], "nesterov": ["strategy.outer_momentum=0.8"],
         "delayed-nesterov": ["strategy.outer_momentum=0.8", "strategy.outer_every=2"],
         "adam": ["strategy.outer_momentum=0.9", "strategy.outer_lr=0.01"]}
# 100 samples, 18 at a time, are uneven on 2 and 4 ranks; the last of the 6 steps of an epoch has 10 of them.
COMMON = ["device=cpu", "progress=none", "checkpoint.keep=0"]
SMALL = ["model=mlp", "hidden=12,9,8", "data=random:1x5x5", "data.samples=100", "batch=18", "epochs=3", "seed=7", "lr=0.05",
         "checkpoint.every_steps=7"]
NET = ["model=data/net.yaml", "data=random:1x8x8", "data.samples=100", "batch=18", "epochs=3", "seed=7", "lr=0.05",
       "checkpoint.every_steps=7"]
BRIEF = ["data.samples=24", "batch=8", "epochs=1", "seed=3", "lr=0.01", "checkpoint.every_steps=2"]
MODELS = {
    "mlp": ["hidden=12,9", "data=random:1x5x5"], "lenet": ["data=random:1x12x10"], "cifar": ["data=random:3x16x16"],
    "alexnet": ["model.width=0.05", "model.hidden=8", "data=random:1x28x28"],
    "googlenet": ["model.width=0.05", "data=random:3x32x32"],
    "vgg16": ["model.width=0.05", "model.hidden=8", "data=random:3x32x32"],
    "resnet18": ["model.width=0.06", "data=random:3x16x16"], "resnet50": ["model.width=0.06", "data=random:3x16x16"],
    "sparse": ["model.filters=3,4", "data=random:2x20x18", "pretrain.epochs=2", "pretrain.head_epochs=1"],
    "gpt": ["model.layers=2", "model.heads=4", "model.embedding=16", "model.dropout=0.1", "data=text:data/text,context=8", "steps=6"],
}


class Case(NamedTuple):
    name: str
    runs: list  # of (ranks, words), one after the other in one folder
    without: frozenset = frozenset()  # tensors that are not compared


def case(name, ranks, *words):
    """A checkpoint of several workers also has what waits at the masters when the first one asks, which depends on time."""
    without = frozenset({"masters"} if "strategy.members=all" in words else ())
    return Case(f"{name}-{ranks}", [(ranks, settled(words))], without)


def resumed(name, ranks, *words, steps=8, then=None):
    """Ends after so many steps, and goes on from the last checkpoint, on `then` ranks where that is given."""
    first = (ranks, settled([*words, f"steps={steps}"]))
    return Case(f"resume/{name}-{ranks}", [first, (then or ranks, settled([*words, "checkpoint.resume=true"]))])


def settled(words):
    """The last value of each key, as a value that is set twice is an error; a key without a value is left out."""
    values = dict(word.split("=", 1) for word in [*COMMON, *words])
    return [f"{key}={value}" for key, value in values.items() if value]


def peers():
    for name, words in PEERS.items():
        yield case(f"peers/{name}", 2, *SMALL, f"strategy={name}", *words)
        yield case(f"peers/{name}", 4, *NET, f"strategy={name}", *words)
    for codec in CODECS:
        yield case(f"codec/gradients-{codec.split('+')[0].replace('/', '-of-')}", 2, *SMALL, f"strategy.codec={codec}")
        yield case(f"codec/deltas-{codec.split('+')[0].replace('/', '-of-')}", 2, *SMALL, "strategy=diloco", "strategy.every=3",
                   f"strategy.codec={codec}")
    for outer, words in OUTER.items():
        yield case(f"outer/{outer}", 3, *NET, "strategy=diloco", "strategy.every=2", "strategy.outer_momentum=0",
                   f"strategy.outer={outer}", *words)


def axes():
    """Values of the other axes, and some together."""
    deltas, parameters = ["strategy=diloco", "strategy.every=3"], ["strategy=local-sgd", "strategy.every=3"]
    for merge in ("mean", "tokens", "radial", "sum", "vote"):
        yield case(f"merge/deltas-{merge}", 3, *SMALL, *deltas, f"strategy.merge={merge}", "strategy.outer_lr=0.1")
    for merge in ("mean", "tokens"):
        yield case(f"merge/parameters-{merge}", 3, *SMALL, *parameters, f"strategy.merge={merge}")
    pairs = ["strategy.how=pairs", "strategy.judged=mean"]
    late, by_turns = ["strategy.apply=late", "strategy.delay=2"], ["strategy.every=6", "strategy.fragments=2"]
    for name, words in {
        "pairs-elastic": [*parameters, *pairs, "strategy.merge=elastic", "strategy.elastic=0.4"],
        "pairs-mean": [*parameters, *pairs], "pairs-of-3": [*parameters, *pairs, "strategy.group=3"],
        "pairs-sgd": ["strategy=noloco", "strategy.every=3", "strategy.outer=sgd", "strategy.outer_momentum=0", "strategy.consensus=0.3"],
        "gossip-every": ["strategy=gosgd", "strategy.when=every", "strategy.every=2"],
        "next": [*deltas, "strategy.apply=next"], "late": [*deltas, *late], "late-alpha": [*deltas, *late, "strategy.alpha=0.3"],
        "late-fragments": ["strategy=diloco", *by_turns, *late], "alpha": [*deltas, "strategy.alpha=0.5"],
        "next-fragments": ["strategy=diloco", *by_turns, "strategy.apply=next"],
        "eager-fragments": ["strategy=eager-diloco", *by_turns], "eager-int8": ["strategy=eager-diloco", "strategy.every=3", "strategy.codec=int8"],
        "streaming-int8": ["strategy=streaming-diloco", "strategy.every=12", "strategy.codec=int8:16", "strategy.feedback=0.9"],
        "fragments-parameters": ["strategy=local-sgd", *by_turns, "strategy.judged=mean"],
        "codec-parameters": [*parameters, "strategy.codec=int8"], "feedback": [*deltas, "strategy.codec=sign", "strategy.feedback=0.5"],
        "sparta-deltas": [*deltas, "strategy.sparta=0.1"], "sparta-parameters": [*parameters, "strategy.sparta=0.1"],
        "inner-average": [*deltas, "strategy.inner=average", "strategy.inner_every=2", "optimizer=adam", "lr=0.01"],
        "inner-reset": [*parameters, "strategy.inner=reset"], "dense-deltas": [*deltas, "strategy.dense_steps=4"],
        "probability": [*parameters, "strategy.when=probability", "strategy.probability=0.4"],
        "probability-deltas": [*deltas, "strategy.when=probability", "strategy.probability=0.4"],
        "judged-exchange": [*deltas, "strategy.judged=exchange"], "judged-mean": [*deltas, "strategy.judged=mean"],
        "scale-lr": ["strategy.scale_lr=true"], "no-reorder": ["strategy.reorder=false"],
        "demo": ["strategy.codec=dct:8/16", "strategy.feedback=0.999", "optimizer=lion", "optimizer.beta1=0", "optimizer.beta2=0"],
    }.items():
        yield case(f"axes/{name}", 3, *SMALL, *words)
    for name, words in {"buckets": ["sync.bucket_bytes=256", "sync.first_bucket_bytes=64"], "buffers-average": ["sync.buffers=average"],
                        "buffers-local": ["sync.buffers=local"], "batch-norm": ["sync.batch_norm=true"],
                        "deltas-buffers-local": [*deltas, "sync.buffers=local"], "micro": ["batch.micro=3"],
                        "per-rank": ["batch.per_rank=5"], "two-levels": ["strategy=local-sgd", "strategy.every=5", "batch.micro=4"]}.items():
        yield case(f"sync/{name}", 2, *NET, *words)
    for ranks in (1, 2, 3, 4):
        yield case("membership", ranks, *NET, "deterministic=membership", "batch.grains=8")


def masters():
    """One worker; several workers that meet in rounds; workers of two ranks; groups."""
    one = ["strategy.masters=1"]
    rounds = ["strategy.members=all"]
    for name, words in {"downpour": ["lr=0.02"], "asgd": [], "easgd": ["strategy.every=3"], "gem": ["strategy.every=2"],
                        "decoupled-diloco": ["strategy.every=4", "strategy.apply=blocking", "strategy.delay=0", "strategy.alpha=0"]}.items():
        yield case(f"masters/{name}-one", 2, *SMALL, f"strategy={name}", *one, *words)
        if name != "gem":
            yield case(f"masters/{name}-rounds", 3, *SMALL, f"strategy={name}", *one, *rounds, *words)
            yield case(f"masters/{name}-rounds", 4, *NET, f"strategy={name}", *one, *rounds, *words)
            yield case(f"masters/{name}-all-keep", 2, *SMALL, f"strategy={name}", *rounds, *words)
    two = [*one, "strategy.processes=2"]
    yield case("masters/dp-easgd-one", 3, *SMALL, "strategy=dp-easgd", *one, "strategy.every=3")
    yield case("masters/dp-easgd-rounds", 5, *SMALL, "strategy=dp-easgd", *one, *rounds, "strategy.every=3")
    yield case("masters/gem-pair", 3, *SMALL, "strategy=gem", *two)
    yield case("masters/decoupled-diloco-late", 3, *SMALL, "strategy=decoupled-diloco", *two, "strategy.every=4")
    yield case("masters/decoupled-diloco-late-rounds", 5, *SMALL, "strategy=decoupled-diloco", *two, *rounds, "strategy.every=4")
    yield case("masters/two-shards", 4, *SMALL, "strategy=asgd", "strategy.masters=2", *rounds, "strategy.every=2")
    yield case("masters/downpour-prefetch", 2, *SMALL, "strategy=downpour", *one, "strategy.every=3", "strategy.prefetch=1")
    yield case("masters/easgd-prefetch", 2, *SMALL, "strategy=easgd", *one, "strategy.every=3", "strategy.prefetch=1")
    yield case("masters/downpour-adam", 2, *SMALL, "strategy=downpour", *one, "optimizer=adam", "lr=0.01")
    for elastic in (["strategy.elastic_force=0", "strategy.elastic=0.3"], ["strategy.elastic_here=0.2"]):
        yield case(f"masters/{elastic[-1].partition('.')[2]}", 3, *SMALL, "strategy=easgd", *one, *rounds, "strategy.every=2", *elastic)
    for stale in ("reject", "damp"):
        yield case(f"masters/stale-{stale}", 2, *SMALL, "strategy=asgd", *one, f"strategy.stale={stale}")
    for outer, words in OUTER.items():
        yield case(f"masters/outer-{outer}", 3, *SMALL, "strategy=asgd", *one, *rounds, "strategy.every=2", f"strategy.outer={outer}", *words)
    for merge in ("mean", "sum", "tokens", "radial"):
        yield case(f"masters/merge-{merge}", 3, *NET, "strategy=asgd", *one, *rounds, "strategy.every=2", f"strategy.merge={merge}")


def groups():
    """Rank 0 is the top, then come sub-masters, then workers. Groups exchange at the end alone, or the time of it would count."""
    words = [*SMALL, "checkpoint.every_steps="]
    for name in ("downpour", "asgd", "easgd", "gem"):
        yield case(f"groups/{name}", 3, *words, f"strategy={name}", "strategy.every=2", "strategy.submasters=1",
                   "strategy.submaster_every=1000")
    yield case("groups/asgd-rounds", 4, *words, "strategy=asgd", "strategy.every=2", "strategy.submasters=1",
               "strategy.submaster_every=1000", "strategy.members=all", "strategy.outer=nesterov", "strategy.outer_momentum=0.5")



def models():
    for name, words in MODELS.items():
        yield case(f"models/{name}", 2, f"model={name}", *BRIEF, *words)
    some = {"googlenet": ["model.batchnorm=false"], "vgg16": ["model.batchnorm=true"], "gpt": ["model.tie=false"],
            "sparse": ["pretrain.tied=false"]}
    for name, words in some.items():
        yield case(f"models/{name}-{words[0].partition('.')[2].replace('=', '-')}", 2, f"model={name}", *BRIEF, *MODELS[name], *words)
    yield case("models/layers", 2, *NET)
    yield case("models/keras", 2, *BRIEF, "model=data/keras.json", "data=random:1x8x8")
    meshes = {
        "lenet": [["height=2"], ["width=2"], ["tensor=2"], ["height=2", "width=2"], ["height=2", "tensor=2"], ["data=2", "height=2"]],
        "mlp": [["tensor=2"], ["mode=vecpar"], ["tensor=2", "layers=fc1=column,fc2=row"]],
        "cifar": [["height=2"], ["mode=halopar"]], "alexnet": [["height=2", "tensor=2"]], "vgg16": [["height=2"]],
        "resnet18": [["height=2"]], "resnet50": [["width=2"]], "googlenet": [["height=2"]],
        "gpt": [["tensor=2"], ["sequence=2"], ["tensor=2", "sequence=2"]], "sparse": [["mode=halopar"]],
    }
    for name, all_words in meshes.items():
        for words in all_words:
            ranks = 4 if len(words) == 2 and "layers" not in words[1] else 2
            yield case(f"mesh/{name}-{'-'.join(words).replace('=', '-').replace(',', '-')}", ranks, f"model={name}", *BRIEF,
                       *MODELS[name], *(f"parallel.{word}" for word in words))
    yield case("mesh/resnet18-batch-norm", 2, "model=resnet18", *BRIEF, *MODELS["resnet18"], "parallel.height=2", "sync.batch_norm=true")
    yield case("mesh/layers", 4, *NET, "batch=16", "parallel.height=2")


def rules():
    """Optimizers, schedules and losses."""
    for name, words in {
        "sgd": [[], ["weight_decay=0.1"]], "momentum": [[], ["dampening=0.3", "weight_decay=0.1"]], "nesterov": [[], ["weight_decay=0.1"]],
        "adam": [[], ["amsgrad=true", "weight_decay=0.1"]], "adamw": [[], ["amsgrad=true"]], "adagrad": [[], ["lr_decay=0.1", "initial=0.1"]],
        "adadelta": [[], ["rho=0.7"]], "rmsprop": [[], ["momentum=0.5", "centered=true"]], "lars": [[], ["adapt_vectors=false"]],
        "lamb": [[], ["adapt_vectors=false"]], "lion": [[], ["weight_decay=0.1"]],
        "muon": [[], ["match_rms=true", "nesterov=false", "iterations=3", "adam_lr_factor=0.5"]],
    }.items():
        for number, more in enumerate(words):
            yield case(f"optimizers/{name}{'-options' if number else ''}", 2, *NET, "lr=", f"optimizer={name}",
                       *(f"optimizer.{word}" for word in more))
    for name, words in {"clip": ["optimizer.clip=0.3"], "groups": ["optimizer.bias_lr_factor=2", "optimizer.decay_bias=false",
                                                                  "optimizer.decay_norm=false", "optimizer.weight_decay=0.1"]}.items():
        yield case(f"optimizers/{name}", 2, *NET, *words)
    for name, words in {"constant": [], "step": ["schedule.milestones=1,2"], "poly": ["schedule.power=2", "schedule.end=0.1"],
                        "cosine": ["schedule.end=0.1"], "exponential": ["schedule.gamma=0.5"], "inverse_time": ["schedule.decay=0.7"],
                        "root_product": ["schedule.first=1", "schedule.span=9"],
                        "auto": ["schedule.first=1", "schedule.records=2", "schedule.threshold=0.5"]}.items():
        yield case(f"schedules/{name}", 2, *SMALL, "epochs=5", f"schedule={name}", "schedule.warmup=1", *words)
    yield case("schedules/step-every", 2, *SMALL, "schedule=step", "schedule.every=1")
    yield case("schedules/power", 2, *SMALL, "schedule.scale=2", "schedule.rise=power", "schedule.warmup=2")
    for loss in ("mse", "l1", "smooth_l1", "mean_squared_error"):
        yield case(f"losses/{loss}", 2, "model=data/scores.yaml", *BRIEF, "data=random:6,target=5", f"loss={loss}")
    yield case("losses/bce", 2, "model=data/probabilities.yaml", *BRIEF, "data=csv:data/train.csv,data/test.csv,regression", "loss=bce")
    yield case("losses/bce_logits", 2, "model=data/logits.yaml", *BRIEF, "data=csv:data/train.csv,data/test.csv,regression", "loss=bce_logits")
    for loss in ("cross_entropy", "nll", "categorical_crossentropy"):
        yield case(f"losses/{loss}", 2, *SMALL, f"loss={loss}")


def data():
    dense = ["model=data/dense.yaml", "batch=9", "epochs=2", "seed=3"]
    yield case("data/csv", 2, *dense, "data=csv:data/train.csv,data/test.csv")
    yield case("data/csv-alone", 2, *dense, "data=csv:data/train.csv")
    yield case("data/npy", 2, *dense, "data=npy:data/train_x.npy,data/train_y.npy,data/test_x.npy,data/test_y.npy")
    for name, source in {"idx": "data/idx", "cifar10": "cifar10:data/cifar10", "cifar100": "cifar100:data/cifar100",
                         "images": "images:data/images", "images-resized": "images:data/images,size=8x6,channels=1"}.items():
        yield case(f"data/{name}", 2, *dense, "model=data/net.yaml", f"data={source}")
    for way in ("batch", "contiguous", "strided", "file"):
        words = [*dense, "model=data/keras.json", "data=hdf5:data/hdf5/train.txt,data/hdf5/test.txt", f"data.way={way}"]
        yield case(f"data/{way}", 2, *words)
        for remainder in ("drop", "pad"):
            yield case(f"data/{way}-{remainder}", 2, *words, "batch=10", f"data.remainder={remainder}")
    for name, words in {"shift": ["data.shift=1"], "crop-mirror": ["data.crop=2", "data.mirror=true"],
                        "threads": ["data.threads=2", "data.prefetch=3", "data.shift=1"]}.items():
        yield case(f"data/{name}", 2, *NET, *words)
    for name, words in {"float64": ["dtype=float64"], "bf16": ["precision=bf16"], "threads": ["threads=2"]}.items():
        yield case(f"dtype/{name}", 2, *NET, *words)
        yield case(f"dtype/lenet-{name}", 2, "model=lenet", *BRIEF, *MODELS["lenet"], *words)
    for name, words in {"deltas": ["strategy=streaming-diloco", "strategy.every=12"], "eager": ["strategy=eager-diloco", "strategy.every=3"],
                        "masters": ["strategy=asgd", "strategy.masters=1"], "membership": ["deterministic=membership", "batch.grains=8"]}.items():
        yield case(f"dtype/float64-{name}", 2, *SMALL, "dtype=float64", *words)
    for name, words in {"every-steps": ["validate.every_steps=4"], "every-samples": ["validate.every_samples=50"],
                        "patience": ["stop.patience=1", "stop.smooth=2", "epochs=9", "lr=0"], "target": ["stop.target=1"]}.items():
        yield case(f"validate/{name}", 2, *SMALL, *words)


def resumptions():
    for name in ("bsp", "post-local-sgd", "streaming-diloco", "eager-diloco", "noloco", "sparseloco", "sparta", "gosgd", "cdd"):
        yield resumed(name, 3, *SMALL, f"strategy={name}", *PEERS[name])
    for optimizer in ("adam", "muon", "rmsprop"):
        yield resumed(f"optimizer-{optimizer}", 2, *NET, "lr=", f"optimizer={optimizer}")
    yield resumed("within-an-epoch", 2, *NET, "data.shift=1", steps=4)
    yield resumed("power-sgd", 2, *SMALL, "strategy.codec=power_sgd:2")
    yield resumed("delayed-nesterov", 2, *SMALL, "strategy=diloco", "strategy.every=2", "strategy.outer=delayed-nesterov", "strategy.outer_every=3")
    yield resumed("outer-adam", 2, *SMALL, "strategy=diloco", "strategy.every=3", "strategy.outer=adam", "strategy.outer_lr=0.01")
    yield resumed("auto", 2, *SMALL, "schedule=auto", "schedule.first=1", "schedule.records=2", "schedule.threshold=0.5")
    yield resumed("membership", 2, *NET, "deterministic=membership", "batch.grains=8", then=3)
    yield resumed("mesh", 2, "model=lenet", *BRIEF, *MODELS["lenet"], "parallel.height=2", steps=2)
    yield resumed("gpt", 2, "model=gpt", *BRIEF, *MODELS["gpt"], steps=2)
    for name, words in {"downpour": ["optimizer=adam", "lr=0.01"], "asgd": ["strategy.outer=nesterov", "strategy.outer_momentum=0.5"],
                        "easgd": ["strategy.every=3"], "gem": ["strategy.every=2"]}.items():
        yield resumed(f"masters-{name}", 2, *SMALL, f"strategy={name}", "strategy.masters=1", *words)


def all_cases():
    found = [each for part in (peers, axes, masters, groups, models, rules, data, resumptions) for each in part()]
    names = [each.name for each in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"two cases have one name: {', '.join(sorted(twice))}")
    return found
