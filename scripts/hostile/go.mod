module github.com/apoidea/apoidea/scripts/hostile

go 1.26.0

require (
	github.com/andybalholm/brotli v1.2.8
	github.com/apoidea/apoidea v0.0.0
	github.com/klauspost/compress v1.19.1
	github.com/miekg/dns v1.1.73
	golang.org/x/net v0.57.0
)

require (
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)

replace github.com/apoidea/apoidea => ../..
