module github.com/apoidea/apoidea/scripts/bandwidth

go 1.26.0

require golang.org/x/sys v0.50.0
