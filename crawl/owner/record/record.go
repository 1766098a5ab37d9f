// Package record holds the messages that an owner of hosts keeps on disk. What surrounds them, a
// byte with the version, and what is read of earlier versions, is package ondisk's.
package record

//go:generate protoc --go_out=../../.. --go_opt=module=github.com/apoidea/apoidea record.proto
