# tutti on Debian 12: the command, the libraries with their headers, and training with LibTorch.
#
#   docker build -t tutti .
#   docker run --rm --shm-size 1g tutti tutti bench allreduce -np 2
#
# Ranks of one container share memory: 64 MB of /dev/shm, a container's default, are not enough for many of them.
FROM debian:12-slim AS build
COPY . /tutti
WORKDIR /tutti
RUN apt-get update && third_party/install && apt-get install -y --no-install-recommends dpkg-dev file && tools/package deb

FROM debian:12-slim
COPY --from=build /tutti/build/packages/*.deb /tmp/packages/
RUN apt-get update \
  && apt-get install -y --no-install-recommends /tmp/packages/libtutti0*.deb /tmp/packages/libtutti-c0*.deb /tmp/packages/libtutti-dev*.deb \
     /tmp/packages/libtutti-ibverbs*.deb \
     /tmp/packages/tutti_*.deb /tmp/packages/tutti-training*.deb /tmp/packages/libtutti-training-dev*.deb openssh-client \
  && rm -rf /tmp/packages /var/lib/apt/lists/*
CMD ["tutti", "info"]
