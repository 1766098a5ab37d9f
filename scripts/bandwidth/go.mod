module github.com/apoidea/apoidea/scripts/bandwidth

go 1.26.0

require github.com/apoidea/apoidea v0.0.0

require golang.org/x/sys v0.50.0 // indirect

replace github.com/apoidea/apoidea => ../..
