# The image is the command alone. It serves the store /data/store at 6379 by the Redis protocol and at 9532 by HTTP:
#
#	docker build -t copal .
#	docker run -d -p 6379:6379 -p 9532:9532 -v copal:/data -e COPAL_PASSWORD=… copal
#
# Without a password it ends, and says what it wants. Each flag of copal serve has a variable; docs/operations.md.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags=image -ldflags='-s -w' -o /out/copal ./cmd/copal && mkdir /out/data

FROM scratch
COPY --from=build /out/copal /copal
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
EXPOSE 6379 9532
ENV COPAL_REDIS=0.0.0.0:6379 COPAL_HTTP=0.0.0.0:9532 COPAL_ADMIN=/data/admin.sock COPAL_LOG=json
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s CMD ["/copal", "health"]
ENTRYPOINT ["/copal"]
CMD ["serve", "/data/store"]
