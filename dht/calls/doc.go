// Package calls implements RPC between peers: requests and answers are frames on long-lived
// streams. It needs only streams of the network, see [Network]; tests use net.Pipe.
//
// Terms:
//
//   - service: the name of a set of requests that a peer answers, such as "ring".
//   - call: one request and its answer. Many calls share one long-lived stream
//     per (peer, service, direction); each is a varint-delimited frame with an ID.
//     The framing is our own because frames of many calls go out in one write: with
//     32 concurrent calls of 64 bytes each costs 5.5 us of CPU over TCP, both sides
//     together; go-msgio on one stream takes 22, one stream per call 80. A single
//     call of 16 KiB takes 111 us, 123 and 176 (BenchmarkCall in dht/p2p).
//
// Guarantees:
//
//   - A call ends: with an answer, with the handler's [*Error], with the
//     caller's context, or with [ErrUnreachable] as soon as the stream
//     breaks. A call is sent at most once: only one that was never
//     written is retried on a fresh stream.
//   - Backpressure instead of loss: outstanding calls, running handlers, queued
//     requests and unsent bytes are limited, and callers wait at a limit.
//     The exceptions are the memory for large requests of all peers and that for
//     unread answers of long services ([Endpoint.Long]): beyond them the answer is
//     [CodeBusy]. Part of both is reserved for peers that are [Network] Known; untrusted peers
//     have lower limits, and all but their tiny requests and answers count.
//   - A slow peer loses a stream and nothing else: the first byte, each started frame and each
//     write have a timeout, which received or written bytes extend, but announced ones do not.
//     A stream may be idle between frames for a minute.
//   - The size of untrusted input is checked before any allocation.
//   - When [Endpoint.Wait] has returned after [Endpoint.Close], no goroutine of this package is
//     left and no handler runs.
package calls
