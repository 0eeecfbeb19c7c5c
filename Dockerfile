# A kwire broker as a container image: small, not root, with a health check; it can replace apache/kafka (docs/TESTING.md).
#
#   docker build -t kwire .
#   docker run -p 9092:9092 kwire
#
# --build-arg EXTRAS=console,metrics,zookeeper installs those extras as well (docs/DEPLOYMENT.md).
#
# PyYAML's C library stays out: `-o yaml` of commands writes a few lines.
#
# The base needs python3 (3.11 or newer, with venv) and Debian's shell tools. PIP_OPTIONS names an index or a directory of
# wheels of your own: --build-arg PIP_OPTIONS="--no-index --find-links /src/wheels".
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
ARG PIP_OPTIONS=""
ARG EXTRAS=""
COPY . /src
RUN python3 -m venv /opt/kwire \
 && /opt/kwire/bin/pip install --no-cache-dir ${PIP_OPTIONS} "/src${EXTRAS:+[$EXTRAS]}" \
 && /opt/kwire/bin/pip uninstall --yes --quiet pip setuptools 2>/dev/null \
 && rm -f /opt/kwire/lib/python3*/site-packages/yaml/_yaml*.so \
 && mkdir -p /image/etc/kafka /image/etc/confluent /image/opt /image/var/lib/kafka/data /image/mnt/shared/config \
 && cp -r /src/docker /image/etc/kafka/docker \
 && cp -r /src/docker /image/etc/confluent/docker \
 && mv /opt/kwire /image/opt/kwire \
 && chmod -R a+rX,a-w /image/opt/kwire \
 && chmod 755 /image/etc/kafka/docker/* /image/etc/confluent/docker/* \
 && chown -R 1000:0 /image/etc/kafka /image/etc/confluent /image/var/lib/kafka /image/mnt/shared \
 && chmod -R g=u /image/etc/kafka /image/etc/confluent /image/var/lib/kafka /image/mnt/shared

FROM ${BASE_IMAGE}
COPY --from=build /image /
# Confluent's image has these commands in its PATH; here they have nothing to do.
RUN useradd --uid 1000 --gid 0 --no-create-home --shell /usr/sbin/nologin kwire \
 && ln -s /bin/true /usr/local/bin/kafka-storage \
 && ln -s /bin/true /usr/local/bin/zookeeper-server-start
ENV PATH=/opt/kwire/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 1000
WORKDIR /var/lib/kafka
VOLUME ["/var/lib/kafka/data"]
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["/etc/kafka/docker/health"]
CMD ["/etc/kafka/docker/run"]
