// Package logs keeps the log of a process short and in one place: a message that repeats is counted instead of repeated, texts of strangers are cut, and what the
// libraries that we import say of themselves, by log, slog, zap or go-log, comes out as ours does, with a level and a component.
//
// Whoever writes the log of a peer may be anybody: a server that sends a strange frame, a million times. So the number of lines is bounded for each message and, of a
// library's, for each component, whatever the texts are.
package logs
