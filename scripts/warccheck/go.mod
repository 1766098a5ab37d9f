module github.com/apoidea/apoidea/scripts/warccheck

go 1.26

require github.com/nlnwa/gowarc/v2 v2.0.1

require (
	github.com/bits-and-blooms/bitset v1.14.3 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.1 // indirect
	github.com/nlnwa/whatwg-url v0.5.0 // indirect
	github.com/prometheus/prometheus v0.55.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
