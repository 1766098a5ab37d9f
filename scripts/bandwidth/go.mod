module github.com/apoidea/apoidea/scripts/bandwidth

go 1.26
