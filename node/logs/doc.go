// Package logs keeps the log of a process short and in one place. A message that repeats is counted
// instead of repeated, and texts of strangers are cut. What imported libraries log by log, slog,
// zap or go-log comes out in our form, with a level and a component.
//
// Strangers can make a peer log: a server may send a strange frame a million times. So the number
// of lines is bounded for each message, and for each component of a library, whatever the texts
// are.
package logs
