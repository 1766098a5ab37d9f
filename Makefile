# The few things that are done often. What each does is in scripts/.
.PHONY: build check test bench release reproduce clean

build: ; CGO_ENABLED=0 go build -trimpath -o bin/apoidea ./cmd/apoidea
check: ; scripts/check.sh
test:  ; go test ./...
bench: ; scripts/bench.sh
release: ; scripts/release.sh
reproduce: ; scripts/reproduce.sh
clean: ; rm -rf bin dist
