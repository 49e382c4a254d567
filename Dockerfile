# The toolchain of tools/*packages.txt as an image; ./rlx finds everything on the "host" inside it.
#
#   docker build -t rlx .
#   docker run --rm rlx demo
#   docker run --rm rlx test
FROM debian:testing

COPY tools/packages.txt tools/test_packages.txt tools/gpu_packages.txt /tmp/
RUN apt-get update \
 && sed 's/#.*//' /tmp/*packages.txt | xargs apt-get install -y --no-install-recommends \
 && rm -rf /var/lib/apt/lists/* /tmp/*packages.txt

WORKDIR /rlx
COPY . .
RUN ./rlx build release

ENTRYPOINT ["./rlx"]
CMD ["demo"]
