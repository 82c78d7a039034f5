# syntax=docker/dockerfile:1
# docker build -t deqcli .
# mkdir -p results  # else the daemon makes it, as root, and --user cannot write there
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/results:/work/results" \
#   deqcli spectrum --act tanh --sigma-a2 0.1
# Real data: add -v "$HOME/data:/data:ro".
# A tag can be moved, a digest cannot. To pin by digest:
# docker buildx imagetools inspect python:3.12.12-slim-bookworm --format '{{.Manifest.Digest}}'
# docker build --build-arg PYTHON=3.12.12-slim-bookworm@sha256:... -t deqcli .
ARG PYTHON=3.12.12-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
# What changes seldom comes first: dependencies, by their hashes (.ci/lock.py writes the files).
COPY requirements-image.txt requirements-build.txt ./
RUN python -m venv /opt/deqcli \
 && /opt/deqcli/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: --requirement requirements-image.txt \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: --requirement requirements-build.txt
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY deqcli ./deqcli
COPY experiments ./experiments
# For 'deqcli info' and every result: docker build --build-arg COMMIT=$(git rev-parse HEAD)
ARG COMMIT=""
RUN DEQCLI_COMMIT=${COMMIT} /opt/build/bin/pip wheel --no-cache-dir --disable-pip-version-check \
      --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
 && /opt/deqcli/bin/pip install --no-cache-dir --disable-pip-version-check \
      --no-deps --no-index /opt/wheels/*.whl

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="deqcli" \
      org.opencontainers.image.description="Deep equilibrium models and their explicit equivalents" \
      org.opencontainers.image.licenses="MIT"
# No home of its own is needed: the caller's uid has none in here.
ENV PATH=/opt/deqcli/bin:${PATH} \
    LC_ALL=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MPLBACKEND=Agg \
    MPLCONFIGDIR=/tmp/matplotlib \
    HOME=/tmp \
    DEQCLI_DATA_DIR=/data
COPY --from=build /opt/deqcli /opt/deqcli
# Any uid may write here where nothing is mounted; a mounted folder keeps its own owner.
RUN useradd --uid 1000 --no-create-home --shell /usr/sbin/nologin deqcli \
 && mkdir -p /work/results /data \
 && chmod 1777 /work /work/results
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["deqcli"]
CMD ["--help"]
