module github.com/apoidea/apoidea/scripts/damage

go 1.26.0
