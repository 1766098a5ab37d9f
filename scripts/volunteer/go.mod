module github.com/apoidea/apoidea/scripts/volunteer

go 1.26.0

require (
	github.com/apoidea/apoidea v0.0.0
	golang.org/x/sys v0.50.0
)

replace github.com/apoidea/apoidea => ../..
