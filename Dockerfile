# syntax=docker/dockerfile:1

# Both images can be replaced (--build-arg), by a mirror or by one that was made locally. To pin a digest as well, write
# name:tag@sha256:... with what `docker buildx imagetools inspect name:tag` prints for the tag.
ARG BUILD_IMAGE=golang:1.26
ARG RUNTIME_IMAGE=gcr.io/distroless/static-debian12:nonroot

# The compiler runs on the machine's own platform and builds for the target's: no emulation.
FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS build
WORKDIR /src
# The modules come first: a change of the source alone does not fetch them again.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /stratos ./cmd/stratos

# static has the certificate authorities that the cloud's API needs, time zones and a user, and no shell.
FROM ${RUNTIME_IMAGE}
COPY --from=build /stratos /stratos
USER 65532:65532
ENTRYPOINT ["/stratos"]
