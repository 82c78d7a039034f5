# syntax=docker/dockerfile:1
ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY deqcli ./deqcli
COPY experiments ./experiments
RUN python -m venv /opt/deqcli \
 && /opt/deqcli/bin/pip install --no-cache-dir --constraint constraints.txt .

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="deqcli" \
      org.opencontainers.image.description="Deep equilibrium models and their explicit equivalents" \
      org.opencontainers.image.licenses="MIT"
ENV PATH=/opt/deqcli/bin:${PATH} \
    LC_ALL=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    MPLBACKEND=Agg \
    MPLCONFIGDIR=/tmp/matplotlib \
    HOME=/tmp
COPY --from=build /opt/deqcli /opt/deqcli
# A mounted results/ is written as the caller's uid: docker run --user "$(id -u):$(id -g)" …
RUN useradd --uid 1000 --no-create-home deqcli \
 && mkdir -p /work/results \
 && chown -R 1000:1000 /work
WORKDIR /work
USER 1000
ENTRYPOINT ["deqcli"]
CMD ["--help"]
