module github.com/apoidea/apoidea/scripts/hostile

go 1.26.0

require (
	github.com/andybalholm/brotli v1.2.8
	github.com/apoidea/apoidea v0.0.0
	github.com/klauspost/compress v1.20.4
	github.com/miekg/dns v1.1.73
	golang.org/x/net v0.62.0
)

require (
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/apoidea/apoidea => ../..
