module github.com/apoidea/apoidea/scripts/damage

go 1.26.0

require github.com/apoidea/apoidea v0.0.0

replace github.com/apoidea/apoidea => ../..
