# The image: docs/image.md. Its steps are scripts, which run on any Debian 12 without a builder, too: that is what CI builds.
# That this file makes the same root is shown where buildah and mmdebstrap are installed, not in CI.
#
# The base only builds; nothing of it is in the image. It is pinned to what Docker Hub served as
# debian:bookworm-20261005-slim; how to renew it: docs/image.md.
ARG BASE=docker.io/library/debian:bookworm-20261005-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587

FROM ${BASE} AS build
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates python3-venv
WORKDIR /source
COPY hack/image hack/image
COPY requirements requirements
# The newest Debian packages: hack/image/build passes --no-cache, or this would come from the day of the first build.
RUN hack/image/fetch /work
COPY LICENSE README.md pyproject.toml ./
COPY config config
COPY app app
ARG SOURCE_DATE_EPOCH
RUN hack/image/assemble /work /image

# hack/image/archive.py reads this stage as well, and refuses what it does not understand.
FROM scratch
COPY --from=build /image /
USER 65532:65532
WORKDIR /
ENV PATH=/usr/local/bin:/usr/bin
EXPOSE 8080/tcp 9643/tcp 9644/tcp
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/dependency-watchdog"]
ARG VERSION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="dependency-watchdog"
LABEL org.opencontainers.image.description="Keeps a Gardener seed from making an outage worse"
LABEL org.opencontainers.image.licenses="Apache-2.0"
LABEL org.opencontainers.image.version="${VERSION}"
LABEL org.opencontainers.image.revision="${REVISION}"
LABEL org.opencontainers.image.created="${CREATED}"
